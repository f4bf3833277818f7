// StepCourse: what a run does when a step begins and once it is over. At the begin: which budget
// and plan hold, and whether the step is recorded. At the end: the step's figures are counted,
// judged and told, and a plan is asked for. Torch-free.
//
//   begin() ─► planFor(), by its first op ─► noteBackwardBegins() ─► releaseLog() ─► end()
//
// Thread rule: any thread. All take the guard, but for noteStepPlan(), noteLateBackward() and
// lateBackwards(); observesBy() takes it only where it is free.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/budget/budget_controller.hpp"
#include "runtime/budget/drops_allowed.hpp"
#include "runtime/budget/outage_course.hpp"
#include "runtime/output/run_lines.hpp"
#include "runtime/output/run_outputs.hpp"
#include "runtime/planning/planning_service.hpp"
#include "runtime/programs/steps_so_far.hpp"
#include "runtime/run/run_control.hpp"
#include "runtime/step_planning.hpp"
#include "runtime/steps/late_backwards.hpp"
#include "runtime/steps/step_events.hpp"
#include "runtime/steps/step_start.hpp"
#include "runtime/steps/step_summary.hpp"

namespace ebbtide::plugin {

class StepCourse final : public StepEvents {
 public:
  using Held = SessionGuard::Held;

  struct Parts {  // of the run; they outlive this, and are not used before it is made
    StepsSoFar& steps;
    TrainedMemory& trained;
    BudgetController& budget;
    const DropsAllowed& drops;
    OutageCourse& outage;
    PlanningService& planning;
    StepPlanning& plans;
    RunControl& control;
    RunOutputs& outputs;
    const RunLines& lines;
  };
  explicit StepCourse(const Parts& parts) : parts_(parts) {}

  // `trains` false: the thread's steps have run nothing backward so far. The step takes no turn
  // from another one, and does not judge the budget.
  StepStart begin(bool trains);
  std::shared_ptr<const Plan> planFor(std::uint64_t first_op_signature, bool trains) override;
  void noteStepPlan(const std::shared_ptr<const Plan>& plan) override;
  void noteBackwardBegins() noexcept override;
  void noteLateBackward(bool ended_by_hint) noexcept override {
    late_backwards_.note(ended_by_hint);
  }
  bool observesBy(const EventLog* log) const override;
  // The step that observed the allocator by this log is over. False: another step took its place
  // before.
  bool releaseLog(const std::shared_ptr<EventLog>& log);
  bool wantsTrace(const StepSummary& summary) const;
  void end(StepSummary summary);
  // The process ends, and with it what `ebbtide fit` measures, before the base was settled.
  void settleAtEnd(const Held& held);
  LateBackwards& lateBackwards() noexcept { return late_backwards_; }
  // The steps that `ebbtide fit` asked for have ended: the process is to end.
  bool measuredAll() const { return config().end_after && measuredAll(guard().hold()); }
  // Another step of such a run is to begin. Within a budget it waits for the plan that is searched
  // for: steps that follow it may need more than steps without a plan.
  void awaitPlan();

 private:
  struct EndedStep;

  SessionGuard& guard() const noexcept { return parts_.budget.run().guard; }
  const Config& config() const noexcept { return *parts_.budget.run().config; }
  StepsSoFar& steps(const Held&) const noexcept { return parts_.steps; }

  bool measuredAll(const Held& held) const;
  void takeBudget(const Held& held);
  // Nothing: the step teaches nothing.
  std::optional<EndedStep> noteEnd(const Held& held, StepSummary& summary,
                                   const allocator::Statistics& memory);
  void judge(const Held& held, const StepSummary& summary, const allocator::Statistics& memory);
  // Of this program; 0: not known which.
  void noteTaken(const Held& held, const allocator::Statistics& memory, double seconds,
                 std::uint64_t program);
  void debugStep(const Held& held, const StepSummary& summary, const allocator::Statistics& memory,
                 const ExecutorCounters::Totals& done) const;
  void recordLargest(const Held& held, const StepSummary& summary,
                     const allocator::Statistics& memory);
  void estimateLargest(const Held& held);
  void recordSpilling(const Held& held, const Program* known);
  void analyse(const scheduler::Trace& trace, bool first_step, bool alone, int budget_number);

  const Parts parts_;
  LateBackwards late_backwards_;
};

}  // namespace ebbtide::plugin
