// ActivePlans: the plan that each program's steps begin with, and since when; and that of the last
// step. Torch-free; whoever has it guards it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "plan/plan.hpp"

namespace ebbtide::plugin {

class ActivePlans {
 public:
  // The process's so many-th step is over, and began with this one; nullptr: none.
  void noteStep(std::shared_ptr<const Plan> plan, std::int64_t step) {
    if (plan != nullptr && first_step_ < 0) first_step_ = step;
    last_ = std::move(plan);
  }
  const std::shared_ptr<const Plan>& last() const { return last_; }  // of the last step
  std::int64_t firstStep() const { return first_step_; }             // that had any; -1: none had

  // --- by program, whose signature it is
  // Its steps begin with this one from that step on; nullptr: with none. A plan with other figures
  // that does the same is the same.
  void noteProgram(std::uint64_t program, const Plan* plan, std::int64_t step) {
    Begin& begin = of_[program];
    const std::shared_ptr<const Plan::Course> course = plan != nullptr ? plan->course : nullptr;
    if (course == begin.course) return;
    begin = {course, step};
  }
  void forget(std::uint64_t program) { of_.erase(program); }
  bool hasPlan(std::uint64_t program) const { return beginOf(program).course != nullptr; }
  // The process's first step under it, or without one again; -1: no step had one yet.
  std::int64_t fromStep(std::uint64_t program) const { return beginOf(program).step; }
  // Of its program; -1: its steps do not begin with it.
  std::int64_t fromStepOf(const Plan& plan) const {
    const Begin begin = beginOf(plan.signature);
    return begin.course == plan.course ? begin.step : -1;
  }

 private:
  struct Begin {  // of a plan's course
    std::shared_ptr<const Plan::Course> course;
    std::int64_t step = -1;
  };

  Begin beginOf(std::uint64_t program) const {
    const auto known = of_.find(program);
    return known != of_.end() ? known->second : Begin{};
  }

  std::map<std::uint64_t, Begin> of_;
  std::shared_ptr<const Plan> last_;
  std::int64_t first_step_ = -1;
};

}  // namespace ebbtide::plugin
