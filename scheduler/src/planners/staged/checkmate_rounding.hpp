// Two-stage rounding of Checkmate's relaxation (Jain et al. 2020, section 5): S is rounded by a
// threshold, and R completed by the fewest runs that it then needs.
#pragma once

#include <functional>
#include <vector>

#include "planners/staged/staged_runs.hpp"

namespace ebbtide::scheduler {

// `retained(t, v)`: is S(t,v) rounded to 1? What no run could make again is retained as well, and
// what no run then reads is not. The budget plays no part: the result may exceed it.
std::vector<RunKey> completedReplays(const Graph& graph, const StagedRuns& runs,
                                     const std::function<bool(OpId, ValueId)>& retained);

}  // namespace ebbtide::scheduler
