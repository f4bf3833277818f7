// A tighter bound on the time of replays, by linear programming.
#pragma once

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

// No schedule without offload whose peak is at most `budget_bytes` can replay for less time, in the
// model that simulate() judges by, whatever the order of its runs. recomputeLowerBound(), and on
// graphs of up to some 200 ops the optimum of a relaxation (time_relaxation.hpp), if HiGHS is there
// and finds it before the deadline. Of the options it heeds the deadline and `ortools`.
Nanoseconds timeLowerBound(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options);

}  // namespace ebbtide::scheduler
