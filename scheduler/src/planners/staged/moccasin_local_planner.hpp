// "moccasin-local": retention intervals as in moccasin2023, section 2, found by local search in
// place of a constraint solver.
#pragma once

#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

class MoccasinLocalPlanner : public Planner {
 public:
  PlannerInfo info() const override;
  PlanResult plan(const Graph& graph, Bytes budget_bytes,
                  const PlannerOptions& options) const override;
};

}  // namespace ebbtide::scheduler
