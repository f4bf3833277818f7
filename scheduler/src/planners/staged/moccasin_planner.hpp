// "moccasin": the constraint program of moccasin2023, solved by CP-SAT in a process of its own from
// what local search finds.
#pragma once

#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

class MoccasinPlanner : public Planner {
 public:
  PlannerInfo info() const override;
  PlanResult plan(const Graph& graph, Bytes budget_bytes,
                  const PlannerOptions& options) const override;
};

}  // namespace ebbtide::scheduler
