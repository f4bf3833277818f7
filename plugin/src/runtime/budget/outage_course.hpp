// OutageCourse: what a run does once values cannot be written to the host any more: plans that
// write none are made, and until one has held the budget steps may go over it. Torch-free.
//
// Thread rule: what takes no Held from any thread, without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "ebbtide/allocator/device_memory.hpp"
#include "plan/plan.hpp"
#include "runtime/budget/budget_controller.hpp"
#include "runtime/budget/spill_outage.hpp"
#include "runtime/steps/step_summary.hpp"

namespace ebbtide::plugin {

class OutageCourse {
 public:
  using Held = SessionGuard::Held;

  // It must outlive this; not used before it is made.
  explicit OutageCourse(BudgetController& budget) : budget_(budget) {}

  const SpillOutage& state() const noexcept { return state_; }
  bool began() const noexcept { return state_.began(); }
  // What becomes of values where there is no plan: part of a message.
  const char* withoutPlan() const noexcept {
    return began() ? "values are computed again where that is possible"
                   : "values are spilled instead";
  }
  // The disk is full, say. Said once. The reclaimer too, which is to wait for nobody. Nothing in an
  // inert child.
  void begin() noexcept;
  // So many bytes of ended steps, most of them made by `op`, are on the host, and nothing reads
  // them: said once.
  void warnOfUnread(std::int64_t bytes, const std::string& op);
  bool saidUnread() const noexcept { return said_unread_; }

  // A step begins: it follows no plan that relies on the host. True: it is the first step since the
  // outage began, and a search that is under way still relies on the host.
  bool take(const Held&);
  // The step is about to follow this plan; nullptr: none.
  void allowOverrunFor(const Held& held, const Plan* plan);
  struct EndedStep {
    const StepSummary& summary;
    const allocator::Statistics& begun;   // when it began
    const allocator::Statistics& memory;  // at its end
    bool planning = false;                // a plan is being made
  };
  void endStep(const Held& held, const EndedStep& step);

 private:
  void end(const Held& held);
  // Did the step follow the best plan, though that does not fit either?
  bool showsNeed(const EndedStep& step) const;
  const JudgedRun& run() const noexcept { return budget_.run(); }

  BudgetController& budget_;
  SpillOutage state_;
  std::atomic<bool> said_unread_{false};
};

}  // namespace ebbtide::plugin
