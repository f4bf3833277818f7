// "greedy": drop what costs least time per byte at the peak, keep again what still fits, then
// search.
#pragma once

#include "ebbtide/scheduler/planner.hpp"
#include "search/retention_search.hpp"

namespace ebbtide::scheduler {

class GreedyPlanner : public Planner {
 public:
  PlannerInfo info() const override;
  // Option "work": schedule steps to simulate in the local search (default 80,000,000).
  PlanResult plan(const Graph& graph, Bytes budget_bytes,
                  const PlannerOptions& options) const override;

  // All but the local search: the best of dropping from everything, of Chen's segments and of
  // minimum cuts with and without their checkpoints, with what fits kept again.
  static ScoredRetention construct(RetentionSearch& search);
};

}  // namespace ebbtide::scheduler
