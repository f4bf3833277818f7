// ActivePlan: the plan that the last step began with, and since when. Torch-free; whoever has it
// guards it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "plan/plan.hpp"

namespace ebbtide::plugin {

class ActivePlan {
 public:
  // The process's so many-th step is over, and began with this one; nullptr: none.
  void noteStep(std::shared_ptr<const Plan> plan, std::int64_t step) {
    if (plan != nullptr && first_step_ < 0) first_step_ = step;
    const bool goes_on =
        plan == plan_ || (plan != nullptr && plan_ != nullptr && plan->course == plan_->course);
    plan_ = std::move(plan);
    if (goes_on) return;  // by other figures, perhaps
    from_step_ = step;
  }

  const std::shared_ptr<const Plan>& plan() const { return plan_; }
  std::int64_t fromStep() const { return from_step_; }    // of it; -1: no step had one yet
  std::int64_t firstStep() const { return first_step_; }  // that had any; -1: as above

 private:
  std::shared_ptr<const Plan> plan_;
  std::int64_t from_step_ = -1, first_step_ = -1;
};

}  // namespace ebbtide::plugin
