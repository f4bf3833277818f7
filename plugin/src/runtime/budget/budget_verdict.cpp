#include "runtime/budget/budget_verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "config/available_memory.hpp"

namespace ebbtide::plugin {
namespace {

constexpr int kMostUndecided = 12;  // steps that are recorded while nothing is decided

std::int64_t violationsNow(const JudgedRun& run) {
  return run.trained.memory().statistics().budget_violations;
}

}  // namespace

// -----------------------------------------------------------------------------------------------
// what is learnt

// Before the first step nothing can be dropped: loading may take more than any step. What a parent
// did before it forked is no word on its child, nor is the budget of the rank that it was taken
// for.
void BudgetVerdict::noteStart(bool own) {
  const allocator::Statistics memory = run_.trained.memory().statistics();
  const Bytes peak = memory.used_peak_bytes;
  const Held held = run_.guard.hold();
  const bool holds = peak <= run_.trained.budgetBytes().value_or(allocator::kUnlimited);
  if (!own || holds) {
    violations_before_budget_ = memory.budget_violations;
    return floor_.countFrom(memory.budget_violations);
  }
  floor_.noteStart({memory.budget_violations, peak}, memory.allocated_bytes);
}

// What the machine does not have fails without us, too, and is no word on the program.
void BudgetVerdict::noteFailedAllocation(std::size_t bytes) noexcept try {
  if (bytes <= static_cast<std::size_t>(usableMemoryBytes())) allocation_failed_ = true;
} catch (...) {
  allocation_failed_ = true;
}

// True: it is the most by now.
bool BudgetVerdict::noteMost(const Held& held, const Need& need) {
  const bool most = floor_.noteNeed(need.bytes, need.alone, need.base_bytes);
  grown_.update(held);
  return most;
}

void BudgetVerdict::noteLeast(const Held& held, Bytes bytes, Bytes base_bytes) {
  floor_.noteNeed(bytes, /*alone=*/true, base_bytes);
  grown_.update(held);
  exportSmallest(held);
}

// From here on this is what everybody is told.
void BudgetVerdict::noteNeed(const Held& held, const Need& need) {
  if (!noteMost(held, need)) return;
  refusal_.describe(held, need, /*most=*/true);
  exportSmallest(held);
}

void BudgetVerdict::noteFloor(const scheduler::Trace& trace, const scheduler::TraceGraph& graph,
                              bool alone, int budget_number) {
  const scheduler::SpillingFloor floor = scheduler::spillingFloor(graph.graph);
  const Need need{.trace = trace,
                  .graph = graph,
                  .floor = floor,
                  .bytes = floor.bytes + run_.trained.unplannedBytes(),
                  .alone = alone,
                  .base_bytes = trace.base_bytes};
  const Held held = run_.guard.hold();
  if (budget_number != budget_.number()) return;  // what it held is judged no more
  const bool most = noteMost(held, need);
  if (most || !refusal_.isDescribed(held)) refusal_.describe(held, need, most);
  exportSmallest(held);
  if (!run_.trained.budgetBytes() || budget_.isOpen() || run_.outage.awaitsPlan()) return;
  refusal_.noteDecides(held, trace);
  const Bytes before = floor_.neededBytes();
  const bool over = floor_.noteStep({.violations = violations_,
                                     .mapped_peak_bytes = run_.figures.usedPeakBytes(),
                                     .by = std::this_thread::get_id()});
  if (floor_.neededBytes() > before) refusal_.noteNeedsMost(held, trace);
  grown_.update(held);
  exportSmallest(held);
  const bool same = refusal_.isSame(held, need);
  if (!over) return;
  const std::string why = fmt::format("steps need {}", formatBytes(floor_.neededBytes()));
  if (takeBack(held, why)) return;
  if (run_.config->planning.on_infeasible != OnInfeasible::kStop) return;
  if (pauseAgain(held, why)) return;
  if (!same) return notices_.sayOver(held);
  floor_.endSearch(refusal_.refusedBytes(held));
  exportSmallest(held);
}

// -----------------------------------------------------------------------------------------------
// a step begins

// What is caught may be followed by another program.
void BudgetVerdict::forgetFailed(const Held& held) {
  if (!allocation_failed_.exchange(false) || !run_.trained.budgetBytes() || floor_.decided())
    return;
  beginOther(held);
  run_.to_record.atLeast(1);
}

// Another program begins: nothing that is known of the one before is told of it.
void BudgetVerdict::beginOther(const Held& held) {
  floor_.beginOther(violationsNow(run_));
  run_.taken.forgetRecorded();
  refusal_.forgetNeed(held);
  notices_.forget(held);
  run_.figures.forgetPeaks();
  exportSmallest(held);
}

void BudgetVerdict::letGoOn(const Held& held, std::uint64_t first_op_signature, Bytes base_bytes) {
  if (!refusal_.goesOn(held, first_op_signature, base_bytes)) return;
  beginOther(held);
  budget_.beginAnew();
  run_.to_record.atLeast(3);
}

void BudgetVerdict::beginStep(const Held& held, Bytes base_bytes, bool trains) {
  const std::optional<Bytes> budget = run_.trained.budgetBytes();
  if (!budget) return beginMeasuredStep(held, base_bytes, trains);
  // Nothing is recorded any more by which it could be judged.
  if (run_.keeps_everything && run_.config->planning.on_infeasible == OnInfeasible::kStop)
    return run_.trained.refuseOverrun();
  if (budget_.isOpen()) return mayGoOver(held);
  // Forward passes without a backward one (a norm that is logged) begin steps, but none that tell.
  // Nor do those of a thread that only looks on: another one's step may be half done.
  const bool tells = trains && std::exchange(begin_told_after_, run_.steps) != run_.steps;
  if (floor_.decided()) return beginDecidedStep(held, base_bytes, tells);
  if (!tells && floor_.begun() > 0) return mayGoOver(held);
  const Bytes base_before = floor_.lastBaseBytes();
  const std::int64_t violations = violationsNow(run_);
  const bool more = std::exchange(violations_at_begin_, violations) < violations;
  floor_.noteTaken(run_.figures.usedPeakBytes());
  floor_.noteBegin(base_bytes, *budget, violations);
  if (!floor_.decided()) {
    grown_.forget(held);
    run_.trained.forgetLater();
    grown_.update(held);
    exportSmallest(held);
    if (more || floor_.begun() <= kMostUndecided) run_.to_record.atLeast(1);
    return mayGoOver(held);
  }
  exportSmallest(held);
  if (floor_.state() == BudgetFloor::State::kImpossible) return refusal_.refuse(held, base_bytes);
  hold(held, base_before, base_bytes);
}

// There is no budget.
void BudgetVerdict::beginMeasuredStep(const Held& held, Bytes base_bytes, bool trains) {
  run_.trained.forgetLater();
  if (!trains) return;
  if (std::exchange(begin_told_after_, run_.steps) == run_.steps || run_.steps < kStepsForOutlook)
    return;
  grown_.measure(held, run_.steps, base_bytes);
}

void BudgetVerdict::beginDecidedStep(const Held& held, Bytes base_bytes, bool tells) {
  if (tells) {
    run_.trained.later().beginStep(run_.steps + 1, base_bytes);
    grown_.note(held, run_.steps + 1, base_bytes);
  }
  grown_.update(held);
  if (grown_.isDue(held)) run_.to_record.atLeast(1);
  const bool goes_over =
      run_.config->planning.on_infeasible != OnInfeasible::kStop || budget_.isAsked();
  if (goes_over || refusal_.stop(held).awaits()) run_.trained.keepOverrunLimit();
}

// The budget is decided just now: it can be held.
void BudgetVerdict::hold(const Held& held, Bytes base_before, Bytes base_bytes) {
  budget_.noteHeld();
  notices_.saySpills(held);
  notices_.sayFits(held);
  grown_.settle(held, run_.steps + 1, base_before, base_bytes);
  run_.trained.watchLater(run_.steps + 1, base_bytes);
  // From here on what would go over the budget fails; but one that was asked for while the run went
  // on is taken back then.
  if (run_.config->planning.on_infeasible == OnInfeasible::kStop && !budget_.isAsked())
    run_.trained.refuseOverrun();
}

// -----------------------------------------------------------------------------------------------
// what follows

void BudgetVerdict::judgeFromNowOn(const Held&) {
  violations_before_budget_ = violationsNow(run_);
  floor_.countFrom(violations_before_budget_);
  floor_.checkAgain();
  run_.trained.memory().resetPeaks();
  run_.figures.forgetPeaks();
  run_.to_record.atLeast(3);
}

void BudgetVerdict::beginAnew(const Held& held) {
  notices_.forget(held);
  violations_before_budget_ = violationsNow(run_);
  floor_.beginAnew(violations_before_budget_);
  run_.figures.forgetPeaks();
  refusal_.beginAnew(held);
}

// The one before it is due: a run is not ended by a request.
bool BudgetVerdict::takeBack(const Held&, const std::string& why) {
  const std::optional<Bytes> now = run_.trained.budgetBytes();
  if (!budget_.takeBack()) return false;
  const std::string spills = run_.trained.spills().lastError();
  run_.warn(
      fmt::format("the budget of {} that was asked for is too small after all ({}{}): the one "
                  "before it holds again from the next step on",
                  budgetText(now), why, spills.empty() ? "" : "; " + spills));
  return true;
}

// The budget that holds again after a pause cannot be held. The pause is due once more: a run is
// not ended by a request.
bool BudgetVerdict::pauseAgain(const Held&, const std::string& why) {
  const std::optional<Bytes> now = run_.trained.budgetBytes();
  if (!budget_.pauseAgain()) return false;
  run_.warn(
      fmt::format("after the pause the program needs more than {} ({}); paused again from the next "
                  "step on. Set a larger budget, then resume",
                  budgetText(now), why));
  return true;
}

// Before the round ends: what a step that cannot fit is stopped with.
void BudgetVerdict::fallShort(const Held& held, const JobFindings::Rank& of) {
  const std::string taker = takerText(of);
  if (!budget_.isNew(RankBudget::Message::kShort)) return;
  refusal_.stop(held).advise(" In the pipeline " + taker + ".");
  const TrainedMemory& trained = run_.trained;
  const Bytes needed = trained.planningCapBytes() + trained.unplannedBytes() + of.excess_bytes;
  run_.warn(
      fmt::format("to run its part of the pipeline without spilling this rank needs {}, its "
                  "budget is {}; {}",
                  formatBytes(trained.budgetWithRoomFor(needed)),
                  formatBytes(trained.budgetBytes().value_or(0)), taker));
}

void BudgetVerdict::exportSmallest(const Held&) {
  run_.metrics.noteSmallestBudget(told_.smallestBytes());
}

void BudgetVerdict::noteBaseSettled(const Held& held) {
  if (floor_.baseSettled()) return;
  floor_.noteBaseSettled();
  exportSmallest(held);
}

}  // namespace ebbtide::plugin
