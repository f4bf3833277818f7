// Verifications: what a run does after verification steps: which plans are trusted, which are given
// up, and which programs are planned anew. Torch-free.
//
//   a step on a plan is over: verified() ─┬─ all was compared ─► trusted
//                                         └─ a part, three times ─┐
//   failed(), by no op's fault ───────────────────────────────────┴─► planned anew, so many times
//   an op is rejected: planWithoutRejected() ─► each plan that replays it goes
//
// Thread rule: any thread; all take the guard.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "plan/plan.hpp"
#include "runtime/budget/budget_controller.hpp"
#include "runtime/budget/outage_course.hpp"
#include "runtime/planning/planning_service.hpp"
#include "runtime/programs/steps_so_far.hpp"
#include "verify/replay_trust.hpp"

namespace ebbtide::plugin {

class Verifications {
 public:
  using Held = SessionGuard::Held;

  struct Parts {  // of the run; they outlive this, and are not used before it is made
    StepsSoFar& steps;
    ReplayTrust& trust;
    PlanningService& planning;
    const BudgetController& budget;
    const OutageCourse& outage;
    std::function<void(const std::string& text)> warn;
  };
  explicit Verifications(Parts parts) : parts_(std::move(parts)) {}

  void verified(const Plan& plan, bool whole);            // whole: all replays were compared
  void failed(const Plan& plan, const std::string& why);  // by no op's fault
  void planWithoutRejected();
  // Is an allocation of a verification step to fail where it would go over the budget?
  bool keepsWithinBudget() const;

 private:
  SessionGuard& guard() const noexcept { return parts_.budget.run().guard; }
  void planAnew(const Held& held, Program& known);

  const Parts parts_;
};

}  // namespace ebbtide::plugin
