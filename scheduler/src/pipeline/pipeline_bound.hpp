// No choices within the budgets end a step earlier. Shares no code with the search.
#pragma once

#include "ebbtide/scheduler/pipeline_job.hpp"

namespace ebbtide::scheduler {

// The longer of two: the step if nothing were replayed; and for each rank what must pass before its
// first action, its actions, the least that it must replay, and what must pass after its last one.
//
// Must replay: at each position the microbatches in flight have to be brought below the budget, at
// the least cost a byte on the lower hull of their points; positions that share no microbatch add
// up.
Nanoseconds makespanLowerBound(const PipelineJob& job);

}  // namespace ebbtide::scheduler
