// What place() does not accept.
#pragma once

#include <optional>
#include <string>

#include "ebbtide/scheduler/placement.hpp"

namespace ebbtide::scheduler {

struct BufferFault {
  std::size_t buffer = 0;
  std::string what;  // "has a negative size"
};

// The first of a buffer, the sum of the sizes included. The alignment is 1 to 2^60.
std::optional<BufferFault> findFault(const PlacementProblem& problem);

}  // namespace ebbtide::scheduler
