// Which forward pass saved what a backward pass reads.
#pragma once

#include <string>
#include <vector>

#include "ebbtide/scheduler/trace.hpp"
#include "pipeline/step_pieces.hpp"

namespace ebbtide::scheduler {

struct UseOwners {
  std::string refusal = {};              // names an event; then nothing else is set
  std::vector<std::int32_t> forward_of;  // of each piece: which forward it reads; kNone: none
  std::vector<bool> saves;               // of each forward: it surely saved something
};

// A use is packed by a forward whose ops read or make its value, and uses are packed in their
// order: that leaves each a range of forwards. What a pass reads is of one forward. Where that does
// not settle all, uses are taken to be packed right at such ops. `forward_at`: of each piece the
// forward that it is part of, by rising numbers; `asked`: is it a pass whose forward is wanted?
UseOwners ownersOfUses(const Trace& trace, const StepPieces& step,
                       const std::vector<std::int32_t>& forward_at, const std::vector<bool>& asked);

}  // namespace ebbtide::scheduler
