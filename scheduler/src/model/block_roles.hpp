// What a recorded step's blocks are to a plan.
#pragma once

#include <vector>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

struct BlockRoles {           // per block
  std::vector<bool> shared;   // of values, but left to the program: never dropped, never replayed
  std::vector<bool> managed;  // whose lifetime the schedule decides
  std::vector<bool> persistent;  // GraphOptions::first_step
};

BlockRoles blockRoles(const Trace& trace, const GraphOptions& options);

}  // namespace ebbtide::scheduler
