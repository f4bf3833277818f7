// What a recorded step's blocks are to a plan.
#pragma once

#include <vector>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

struct BlockRoles {           // per block
  std::vector<bool> shared;   // of values, but left to the program: never dropped, never replayed
  std::vector<bool> managed;  // whose lifetime the schedule decides
  // GraphOptions::first_step
  std::vector<bool> persistent;   // later steps find it at their start
  std::vector<Bytes> found_once;  // of what the step found and gave back: later steps find less
};

BlockRoles blockRoles(const Trace& trace, const GraphOptions& options);

}  // namespace ebbtide::scheduler
