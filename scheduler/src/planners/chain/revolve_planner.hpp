// "revolve": Griewank and Walther's binomial schedules (2000), which keep inputs alone and save a
// stage right before its backward; a baseline of rotor2024, section 5.4.
#pragma once

#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

class RevolvePlanner : public Planner {
 public:
  PlannerInfo info() const override;
  PlanResult plan(const Graph& graph, Bytes budget_bytes,
                  const PlannerOptions& options) const override;
};

}  // namespace ebbtide::scheduler
