// firstPlan(): a plan at once, for a training that waits for one. Nothing is searched or annealed.
#pragma once

#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

// Of blocks joined and greedy's construction the better one; of a large graph the first that fits.
// Judged by validator and simulator. Deterministic, unless the deadline ends it. Infeasible where
// neither fits, which says nothing of the budget: a search may find more.
PlanResult firstPlan(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options);

}  // namespace ebbtide::scheduler
