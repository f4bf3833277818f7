// What the lower bounds know of reads. Planners have functions of their own for it, so that an
// error here cannot move bound and planner along.
#pragma once

#include <vector>

#include "ebbtide/scheduler/graph.hpp"

namespace ebbtide::scheduler {

// Per value: the last op whose read only the schedule can serve; kNone if the program itself holds
// the value for all reads.
std::vector<OpId> lastScheduleReads(const Graph& graph);

}  // namespace ebbtide::scheduler
