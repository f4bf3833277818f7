// "greedy-remat": the rematerialization pass of XLA as kumar2019, section 4, uses it: ops in
// program order; while one is beyond the limit, the value whose rematerialization frees most is
// freed and made again right before its next reader.
#pragma once

#include "ebbtide/scheduler/planner.hpp"
#include "search/plan_choice.hpp"

namespace ebbtide::scheduler {

class GreedyRematPlanner : public Planner {
 public:
  PlannerInfo info() const override;
  PlanResult plan(const Graph& graph, Bytes budget_bytes,
                  const PlannerOptions& options) const override;
};

// One pass under a limit, which it goes beyond where nothing frees memory or its work is at its own
// limit.
Schedule rematerializeGreedily(const Graph& graph, Bytes limit_bytes, const WorkLimit& work);

}  // namespace ebbtide::scheduler
