// "rotor-persistent" and "rotor-floating": rotor2024's dynamic programs over the chains that a
// graph contracts to.
#pragma once

#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

class RotorPlanner : public Planner {
 public:
  enum class Checkpoints : std::uint8_t {
    kPersistent,  // section 4.4: kept until their backward
    kFloating,    // section 4.3: the last one may be replaced by a later one
  };

  explicit RotorPlanner(Checkpoints checkpoints) : checkpoints_(checkpoints) {}
  PlannerInfo info() const override;
  PlanResult plan(const Graph& graph, Bytes budget_bytes,
                  const PlannerOptions& options) const override;

 private:
  Checkpoints checkpoints_;
};

}  // namespace ebbtide::scheduler
