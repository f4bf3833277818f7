// What a Session makes of a step that is over, and of what is said of it (step_judge.hpp).
#include <fmt/format.h>

#include <algorithm>

#include "runtime/session.hpp"
#include "runtime/step_judge.hpp"

namespace ebbtide::plugin {
namespace {

const char* planUse(const StepSummary& summary) {
  if (summary.plan == nullptr) return "none";
  if (summary.off_plan) return "left";
  return summary.trusted ? "followed" : "rehearsed";
}

}  // namespace

void Session::judgeStep(const Held& held, const StepSummary& summary,
                        const allocator::Statistics& memory) {
  base_bytes_ = begun_.memory.allocated_bytes;
  Program* known = programs_.programOf(summary);
  if (known == nullptr && !budget()) known = &programs_[programs_.last()];
  if (known != nullptr) ++known->steps;
  if (known != nullptr && !budget())
    known->notePlainPeak(memory.allocated_peak_bytes, begun_.activation_bytes);
  const ExecutorCounters::Totals done = counters_.totals() - begun_.executor;
  debugStep(held, summary, memory, done);
  if (summary.followed) counters_.addFollowedStep();
  const StepVerdict verdict = verdictOn({summary, memory, done}, known, planning_.isBusy(held));
  if (verdict.followed_plan) known->noteFollowed(verdict.peak_bytes, verdict.offloads_slowly);
  if (verdict.plan_again) known->askAgain();
  if (verdict.plan_again && planning_.improved(held) == known->plan) planning_.need(held);
  if (verdict.spills_unplanned) recordSpilling(held, known);
  if (verdict.spills && summary.recorded) to_record_.noteSeen();
  budget_.verdict().noteViolations(held, memory.budget_violations);
}

void Session::debugStep(const Held&, const StepSummary& summary,
                        const allocator::Statistics& memory,
                        const ExecutorCounters::Totals& done) const {
  debug(fmt::format(
      "step {}: live {} peak {}, mapped {} peak {}, cached {}, spilled {}, recomputed {}, dropped "
      "{}, blocks placed {}, not as placed {}, plan {}",
      steps_, memory.allocated_bytes, memory.allocated_peak_bytes, memory.mapped_bytes,
      memory.mapped_peak_bytes, memory.cached_bytes, done.spilled_bytes, done.recomputed_ops,
      done.dropped_online_bytes, memory.planned_allocations - begun_.memory.planned_allocations,
      memory.plan_deviations - begun_.memory.plan_deviations, planUse(summary)));
}

// Without a plan of its own it fitted until now, or is a new one.
void Session::recordSpilling(const Held& held, const Program* known) {
  if (to_record_.any() || (known != nullptr && !known->replan)) return;
  if (known == nullptr) {
    to_record_.watchForReturn();
  } else {
    to_record_.atLeast(2);
  }
  budget_.forget(held, RankBudget::Message::kFits);
}

// For those who ask what steps take; and a budget that was asked for is held, or taken back.
void Session::noteTaken(const Held& held, const allocator::Statistics& memory, double seconds,
                        std::uint64_t program) {
  const ExecutorCounters::Totals done = counters_.totals() - begun_.executor;
  taken_.end(memory, {.number = steps_,
                      .program = program,
                      .seconds = seconds,
                      .recompute_seconds = static_cast<double>(done.recompute_ns) * 1e-9,
                      // What ran while the rank would have waited has not made the step longer.
                      .added_seconds = static_cast<double>(done.recompute_ns - done.ahead_ns +
                                                           done.codec_ns + done.offload_ns) *
                                       1e-9,
                      .peak_bytes = memory.allocated_peak_bytes});
  if (this->memory().ledger().overruns() > taken_.violationsBefore()) budget_.noteOver(held);
}

std::optional<RecentSteps::Medians> Session::stepTime(const Held&) const {
  return taken_.stepTime(steps_, programs_.active().fromStep());
}

}  // namespace ebbtide::plugin
