// FirstPlan: the plan of a program that was found at once and is in force, while no search for a
// better one has ended: and how it was made, by which it has the figures of later steps, too.
// Torch-free; whoever has it guards it.
//
//   step 1 is recorded ─► a first plan, in force from step 3 on
//   a later one is     ─► the same, by this step's figures, or another first plan ─► a search for a
//                           better one ─► it ends: the plan in force is no first plan any more
#pragma once

#include <memory>
#include <utility>

#include "plan/plan.hpp"
#include "plan/plan_search.hpp"

namespace ebbtide::plugin {

class FirstPlan {
 public:
  FirstPlan() = default;  // none
  FirstPlan(std::shared_ptr<const Plan> plan, Planned made) : plan_(std::move(plan)) {
    made_.step.restores = std::move(made.step.restores);
    made_.result = std::move(made.result);
  }

  bool any() const { return plan_ != nullptr; }
  bool is(const std::shared_ptr<const Plan>& plan) const { return any() && plan == plan_; }
  const Planned& made() const { return made_; }  // without a graph, which is large

 private:
  std::shared_ptr<const Plan> plan_;
  Planned made_;
};

}  // namespace ebbtide::plugin
