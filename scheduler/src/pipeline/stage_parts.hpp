// Which forwards of a rank are of the same stage, and which read what another one made.
#pragma once

#include <string>
#include <vector>

#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

struct StageParts {
  std::string refusal = {};
  std::int32_t parts = 0;
  std::vector<std::int32_t> part_of;   // of each forward
  std::vector<std::int32_t> previous;  // of each forward; kNone: it reads no other part's output
};

// `forward_of_op`: of each trace op, kNone: of no forward. Forwards that compute with the same
// parameters are one part; where that leaves parts with unlike numbers of forwards, those that
// share a parameter.
StageParts partsOf(const Trace& trace, const std::vector<std::int32_t>& forward_of_op,
                   std::int32_t forwards);

}  // namespace ebbtide::scheduler
