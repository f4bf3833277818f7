// The bound on time that `plan` prints and `curve` draws.
#pragma once

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::cli {

// No schedule within the budget takes less time in all; `plain_ns` is that of one without replays.
// Takes a second at most where the deadline allows; on large graphs it is `plain_ns`.
scheduler::Nanoseconds leastDuration(const scheduler::Graph& graph, scheduler::Bytes budget_bytes,
                                     scheduler::Nanoseconds plain_ns,
                                     scheduler::PlannerOptions options);

}  // namespace ebbtide::cli
