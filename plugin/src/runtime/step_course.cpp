#include "runtime/step_course.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "runtime/budget/shown_plan.hpp"
#include "runtime/programs/step_judge.hpp"

namespace ebbtide::plugin {
namespace {

constexpr auto kMostForPlan = std::chrono::seconds(10);

const char* planUse(const StepSummary& summary) {
  if (summary.plan == nullptr) return "none";
  if (summary.off_plan) return "left";
  return summary.trusted ? "followed" : "verified";
}

}  // namespace

// -----------------------------------------------------------------------------------------------
// a step begins, and goes on

// Plans that were made for it are in force too.
void StepCourse::takeBudget(const Held& held) {
  const int before = parts_.budget.number(held);
  const std::optional<std::string> size = parts_.budget.take(held);
  if (parts_.budget.number(held) != before) {
    parts_.planning.cut(held);  // it searches for the one before
    steps(held).largest = {};   // under a budget others record what is larger
  }
  if (!size) return;
  parts_.plans.beginBudget(held);
  parts_.control.takePlan(held, *size);
}

StepStart StepCourse::begin(bool trains) {
  const Held held = guard().hold();
  // Of what ran since the last one ended: behind a hint an evaluation is no step's. Or of a step of
  // another thread, which goes on.
  if (steps(held).ended > 0 || parts_.budget.openSteps(held).any())
    steps(held).figures.notePeaks(parts_.trained.memory().statistics());
  BudgetVerdict& verdict = parts_.budget.verdict();
  parts_.budget.measure(held, parts_.trained.memory().budgetTracker().liveBytes(), trains);
  takeBudget(held);
  verdict.forgetFailed(held);
  verdict.beginStep(held, parts_.trained.memory().budgetTracker().liveBytes(), trains);
  if (parts_.outage.take(held)) parts_.planning.cut(held);
  StepStart start;
  start.number = steps(held).ended + 1;
  start.opened = parts_.budget.beginStep(held);
  parts_.outputs.trace.beginStep(start.number);
  parts_.outputs.snapshots.beginStep(start.number);
  start.plan = steps(held).programs.expectedPlan(start.number);
  // The guess may be wrong, and the step one that has a plan: its first op tells.
  const bool observed = (steps(held).to_record.any() || steps(held).programs.anyPlan()) &&
                        !parts_.drops.keepsEverything();
  start.record_ops = observed || parts_.drops.pressed();
  const bool asks_for_all =  // what is left of it says where a step ends
      start.record_ops || late_backwards_.stepsGoOn() || late_backwards_.crossHints();
  start.hooks = asks_for_all || parts_.budget.bytes().has_value();
  // What is merely watched goes to the spill file or nowhere.
  if (!asks_for_all && !parts_.trained.isElsewhere())
    start.least_saved_bytes = SpillTarget::kLeastBytes;
  if (parts_.drops.keepsEverything()) {
    start.plan = nullptr;
    start.record_ops = start.hooks = false;
  }
  parts_.outage.allowOverrunFor(held, start.plan.get());
  parts_.trained.memory().resetPeaks();
  const allocator::Statistics memory = parts_.trained.memory().statistics();
  if (observed && config().own_allocator && steps(held).turn.isFree(trains)) {
    start.log = std::make_shared<EventLog>(memory.allocated_bytes,
                                           &parts_.trained.memory().budgetTracker());
    steps(held).turn.take(start.log, trains);
    parts_.trained.observer().passTo(start.log);
    if (parts_.trained.placement()) parts_.trained.placement()->beginStep(start.plan);
  }
  steps(held).taken.begin(memory);
  steps(held).begun = {.at = RunClock::now(),
                       .memory = memory,
                       .executor = parts_.outputs.counters.totals(),
                       .late_backwards = late_backwards_.count()};
  return start;
}

bool StepCourse::releaseLog(const std::shared_ptr<EventLog>& log) {
  const Held held = guard().hold();
  if (!steps(held).turn.release(log)) return false;
  parts_.trained.observer().passTo(nullptr);
  return true;
}

std::shared_ptr<const Plan> StepCourse::planFor(std::uint64_t first_op_signature, bool trains) {
  const Held held = guard().hold();
  if (trains)
    parts_.budget.verdict().letGoOn(held, first_op_signature,
                                    steps(held).begun.memory.allocated_bytes);
  if (parts_.drops.keepsEverything()) return nullptr;
  std::shared_ptr<const Plan> plan =
      steps(held).programs.planFor(first_op_signature, steps(held).ended + 1);
  parts_.outage.allowOverrunFor(held, plan.get());
  return plan;
}

void StepCourse::noteStepPlan(const std::shared_ptr<const Plan>& plan) {
  if (parts_.trained.placement()) parts_.trained.placement()->changePlan(plan);
}

bool StepCourse::observesBy(const EventLog* log) const {
  const auto held = guard().tryHold();
  return held && steps(*held).turn.isOf(log);
}

bool StepCourse::wantsTrace(const StepSummary& summary) const {
  const Held held = guard().hold();
  if (steps(held).to_record.any() || summary.off_plan || summary.plan == nullptr) return true;
  const auto known = steps(held).programs.find(summary.plan->signature);
  if (known == steps(held).programs.end() || parts_.planning.isBusy(held) ||
      parts_.plans.waitsForSearch(held, known->second))
    return false;
  return known->second.planning.replan || known->second.planning.unpolished ||
         known->second.planning.from_first_step;
}

void StepCourse::noteBackwardBegins() noexcept {
  const std::int64_t live = parts_.trained.memory().statistics().allocated_bytes;
  if (parts_.trained.placement()) parts_.trained.placement()->beginBackward();
  const Held held = guard().hold();
  steps(held).begun.activation_bytes = live - steps(held).begun.memory.allocated_bytes;
}

void StepCourse::awaitPlan() {
  if (!config().end_after || !parts_.budget.bytes()) return;
  Held held = guard().hold();
  parts_.planning.awaitWord(held, std::chrono::steady_clock::now() + kMostForPlan,
                            [&] { return !parts_.planning.isBusy(held); });
}

bool StepCourse::measuredAll(const Held& held) const {
  const auto& end = config().end_after;
  return end && steps(held).ended >= end->steps;
}

// -----------------------------------------------------------------------------------------------
// it is over

struct StepCourse::EndedStep {  // with its backward pass, recorded
  std::int64_t number = 0;
  int budget_number = 0;
  bool first = false, alone = false, decides = false;
  std::optional<BaseGrowth::Found> growth = std::nullopt;  // to be said
};

void StepCourse::end(StepSummary summary) {
  const allocator::Statistics memory = parts_.trained.memory().statistics();
  std::optional<EndedStep> ended;
  {
    const Held held = guard().hold();
    ended = noteEnd(held, summary, memory);
  }
  if (!ended) return;
  summary.trace.host = parts_.trained.hostCopies();
  const auto trace = std::make_shared<const scheduler::Trace>(std::move(summary.trace));
  if (!config().files.trace_dir.empty()) parts_.outputs.files.writeTrace(*trace, ended->number);
  BudgetVerdict& verdict = parts_.budget.verdict();
  // The error that ended a step has told it; where the program goes on, the next step's line does.
  if (const auto& growth = ended->growth;
      growth && growth->isGrowth() && !verdict.allocationFailed()) {
    verdict.grown().say(*growth, *trace);
  } else if (growth) {
    const Held held = guard().hold();
    verdict.grown().keepDue(held, growth->isGrowth());
  }
  // First: no plan is made for a budget that is too small.
  if (ended->decides || !parts_.budget.bytes())
    analyse(*trace, ended->first, ended->alone, ended->budget_number);
  parts_.plans.ask({trace, ended->first, ended->alone});
}

std::optional<StepCourse::EndedStep> StepCourse::noteEnd(const Held& held, StepSummary& summary,
                                                         const allocator::Statistics& memory) {
  steps(held).figures.notePeaks(memory);
  BudgetVerdict& verdict = parts_.budget.verdict();
  const bool tells = parts_.budget.openSteps(held).tells(summary.opened);
  parts_.budget.endStep(held, summary.opened);
  if (auto& placement = parts_.trained.placement(); placement && summary.observed) {
    placement->endStep(summary.had_backward && summary.trusted && !summary.off_plan);
    if (placement->hasWork()) parts_.planning.wake();
  }
  if (!summary.had_backward) return std::nullopt;
  parts_.trained.noteSlackAtPeak(memory.slack_at_peak_bytes);
  if (!parts_.trained.isElsewhere()) steps(held).figures.noteUncounted(summary.uncounted_bytes);
  const double elapsed =
      std::chrono::duration<double>(RunClock::now() - steps(held).begun.at).count();
  ++steps(held).ended;
  parts_.outputs.trace.endStep(steps(held).ended);
  parts_.outputs.snapshots.endStep(steps(held).ended);
  steps(held).figures.addStep(elapsed);
  // One that another step kept from being recorded is still to be recorded.
  if (summary.recorded || !steps(held).turn.isTaken()) {
    steps(held).to_record.noteStep();
  } else if (tells) {
    const bool over = memory.budget_violations > steps(held).begun.memory.budget_violations;
    verdict.noteUnrecorded(held, over, memory.budget_violations);
  }
  // Steps of several threads may use those up unrecorded.
  if (parts_.budget.bytes() && parts_.budget.ofRank(held).isResumed() && !verdict.decided(held))
    steps(held).to_record.atLeast(1);
  if (steps(held).ended == 1) steps(held).first_peak_bytes = memory.mapped_peak_bytes;
  judge(held, summary, memory);
  steps(held).programs.noteActive(summary, steps(held).ended, parts_.drops.keepsEverything());
  // Without a budget no begin decides, and after those that `ebbtide fit` asked for none comes.
  const bool many = steps(held).ended >= kStepsForOutlook && !parts_.budget.bytes();
  if (many || measuredAll(held)) verdict.noteBaseSettled(held);
  parts_.outage.endStep(held,
                        {summary, steps(held).begun.memory, memory, parts_.planning.isBusy(held)});
  verdict.exportSmallest(held);
  parts_.outputs.metrics.noteStep(held, {.memory = memory,
                                         .figures = steps(held).figures,
                                         .plan = steps(held).programs.active().last(),
                                         .shown = shownPlan(held, parts_.budget).plan,
                                         .seconds = elapsed});
  noteTaken(held, memory, elapsed, steps(held).programs.noteStep(summary));
  parts_.budget.learn(held, summary);
  parts_.outputs.metrics.learnStages(held, summary);
  parts_.budget.check().noteStep(summary, steps(held).ended);
  if (!summary.recorded) return std::nullopt;
  steps(held).figures.noteTimeline(summary.trace);
  const bool part = late_backwards_.count() > steps(held).begun.late_backwards;
  EndedStep ended{.number = steps(held).ended,
                  .budget_number = parts_.budget.number(held),
                  .first = steps(held).ended == 1,
                  .alone = summary.alone,
                  .decides = tells && verdict.takesStep(held, steps(held).ended, part)};
  ended.growth = verdict.grown().takeDue(held);
  steps(held).programs.noteRecorded(summary.trace);
  return ended;
}

// Without a budget. The need of the largest step is not known if it was not recorded. The estimate
// adds to the others' need the difference of the peaks, or of the bases if that is larger.
void StepCourse::estimateLargest(const Held& held) {
  const LargestStep& largest = steps(held).largest;
  BudgetVerdict& verdict = parts_.budget.verdict();
  if (largest.unrecordedBytes() == 0 || verdict.floorBytes() == 0) return;
  const std::int64_t grown = largest.baseBytes() - verdict.floorBaseBytes(held);
  verdict.noteLeast(held, verdict.floorBytes() + std::max(largest.unrecordedBytes(), grown),
                    largest.baseBytes());
}

// Its one or two steps are all that is known. What their updates left (gradients, the optimizer's
// state) comes on top of what a step with their base needs.
void StepCourse::settleAtEnd(const Held& held) {
  if (!parts_.budget.bytes() && !parts_.drops.keepsEverything()) estimateLargest(held);
  BudgetVerdict& verdict = parts_.budget.verdict();
  if (!config().end_after || verdict.told().baseSettled() || verdict.floorBytes() == 0) return;
  const std::int64_t live = parts_.trained.memory().statistics().allocated_bytes;
  const std::int64_t grown = live - steps(held).base_bytes;
  if (grown > 0) verdict.noteLeast(held, verdict.floorBytes() + grown, live);
  verdict.noteBaseSettled(held);
}

// What is said of it: step_judge.hpp.
void StepCourse::judge(const Held& held, const StepSummary& summary,
                       const allocator::Statistics& memory) {
  steps(held).base_bytes = steps(held).begun.memory.allocated_bytes;
  Program* known = steps(held).programs.programOf(summary);
  if (known == nullptr && !parts_.budget.bytes())
    known = &steps(held).programs[steps(held).programs.last()];
  if (known != nullptr) ++known->steps;
  if (known != nullptr && !parts_.budget.bytes())
    known->notePlainPeak(memory.allocated_peak_bytes, steps(held).begun.activation_bytes);
  recordLargest(held, summary, memory);
  const ExecutorCounters::Totals done =
      parts_.outputs.counters.totals() - steps(held).begun.executor;
  debugStep(held, summary, memory, done);
  if (summary.followed) parts_.outputs.counters.addFollowedStep();
  const StepVerdict verdict =
      verdictOn({summary, memory, done}, known, parts_.planning.isBusy(held));
  if (verdict.followed_plan) known->noteFollowed(verdict.peak_bytes, verdict.offloads_slowly);
  if (verdict.plan_again) known->askAgain();
  if (verdict.plan_again && parts_.planning.improved(held) == known->in_force.plan)
    parts_.planning.need(held);
  if (verdict.spills_unplanned) recordSpilling(held, known);
  if (verdict.spills && summary.recorded) steps(held).to_record.noteSeen();
  parts_.budget.verdict().noteViolations(held, memory.budget_violations);
}

void StepCourse::debugStep(const Held& held, const StepSummary& summary,
                           const allocator::Statistics& memory,
                           const ExecutorCounters::Totals& done) const {
  if (config().log_level != "debug") return;
  parts_.lines.debug(fmt::format(
      "step {}: live {} peak {}, mapped {} peak {}, cached {}, spilled {}, recomputed {}, dropped "
      "{}, blocks placed {}, not as placed {}, plan {}",
      steps(held).ended, memory.allocated_bytes, memory.allocated_peak_bytes, memory.mapped_bytes,
      memory.mapped_peak_bytes, memory.cached_bytes, done.spilled_bytes, done.recomputed_ops,
      done.dropped_online_bytes,
      memory.planned_allocations - steps(held).begun.memory.planned_allocations,
      memory.plan_deviations - steps(held).begun.memory.plan_deviations, planUse(summary)));
}

// Without a plan of its own it fitted until now, or is a new one.
void StepCourse::recordSpilling(const Held& held, const Program* known) {
  if (steps(held).to_record.any() || (known != nullptr && !known->planning.replan)) return;
  if (known == nullptr) {
    steps(held).to_record.watchForReturn();
  } else {
    steps(held).to_record.atLeast(2);
  }
  parts_.budget.forget(held, RankBudget::Message::kFits);
}

// No plan is made, and nothing else would record a step that takes more than the first ones.
void StepCourse::recordLargest(const Held& held, const StepSummary& summary,
                               const allocator::Statistics& memory) {
  if (parts_.budget.bytes() || parts_.drops.keepsEverything()) return;
  if (!summary.alone || summary.waited) return;  // the peak is of several steps
  steps(held).to_record.atLeast(steps(held).largest.note(memory.allocated_peak_bytes,
                                                         steps(held).base_bytes, summary.recorded));
}

// For those who ask what steps take; and a budget that was asked for is held, or taken back.
void StepCourse::noteTaken(const Held& held, const allocator::Statistics& memory, double seconds,
                           std::uint64_t program) {
  const ExecutorCounters::Totals done =
      parts_.outputs.counters.totals() - steps(held).begun.executor;
  steps(held).taken.end(memory,
                        {.number = steps(held).ended,
                         .program = program,
                         .seconds = seconds,
                         .recompute_seconds = static_cast<double>(done.recompute_ns) * 1e-9,
                         // What ran while the rank would have waited has not made the step longer.
                         .added_seconds = static_cast<double>(done.recompute_ns - done.ahead_ns +
                                                              done.codec_ns + done.offload_ns) *
                                          1e-9,
                         .peak_bytes = memory.allocated_peak_bytes});
  if (parts_.trained.memory().budgetTracker().overruns() > steps(held).taken.violationsBefore())
    parts_.budget.noteOver(held);
}

// Of a step that has been recorded: what the report says of its activations, and what it tells of
// the budget.
void StepCourse::analyse(const scheduler::Trace& trace, bool first_step, bool alone,
                         int budget_number) try {
  const scheduler::TraceGraph graph = scheduler::buildGraph(trace, {.first_step = first_step});
  auto shares = scheduler::activationShares(trace, graph);
  {
    const Held held = guard().hold();
    const auto program = steps(held).programs.find(trace.signature);
    if (program != steps(held).programs.end()) program->second.plain.shares = std::move(shares);
  }
  parts_.budget.verdict().noteFloor(
      trace, scheduler::buildGraph(trace, {.first_step = first_step, .unread_may_go = true}), alone,
      budget_number);
} catch (const std::exception& error) {
  parts_.lines.warn(std::string("a step could not be analysed: ") + error.what());
}

}  // namespace ebbtide::plugin
