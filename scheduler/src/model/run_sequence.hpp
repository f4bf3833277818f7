// A schedule as the bare sequence of its runs, on graphs of any order: each copy of a value is kept
// from the run that makes it to the last one that reads it, so drops follow from the runs.
#pragma once

#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/schedule.hpp"

namespace ebbtide::scheduler {

// Legal if each run finds its inputs made by runs before it, and every op is among them.
Schedule scheduleOfRuns(const Graph& graph, const std::vector<OpId>& runs);

}  // namespace ebbtide::scheduler
