// "dtr": dynamic tensor rematerialization (Kirisame and others, "Dynamic Tensor Rematerialization",
// ICLR 2021), its online heuristic as an offline baseline: ops run in program order under a limit;
// where the next one does not fit, the value of least cost / (bytes x staleness) is evicted.
#pragma once

#include "ebbtide/scheduler/planner.hpp"
#include "search/plan_choice.hpp"

namespace ebbtide::scheduler {

class DtrPlanner : public Planner {
 public:
  PlannerInfo info() const override;
  PlanResult plan(const Graph& graph, Bytes budget_bytes,
                  const PlannerOptions& options) const override;
};

// One run of the program under a limit, with eviction as above; where nothing can be evicted, it
// goes beyond the limit. No more evictions once its own work is at its limit.
Schedule runWithEviction(const Graph& graph, Bytes limit_bytes, const WorkLimit& work);

}  // namespace ebbtide::scheduler
