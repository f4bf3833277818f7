// "periodic": segments of equally many stages, as torch's checkpoint_sequential has them; the
// "sequential" baseline of rotor2024, section 5.4.
#pragma once

#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

class PeriodicPlanner : public Planner {
 public:
  PlannerInfo info() const override;
  PlanResult plan(const Graph& graph, Bytes budget_bytes,
                  const PlannerOptions& options) const override;
};

}  // namespace ebbtide::scheduler
