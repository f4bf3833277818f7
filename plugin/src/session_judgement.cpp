// What a Session makes of a step that is over: was its plan right, and is the program to be
// recorded again? All of it with mutex_ held.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "session.hpp"

namespace ebbtide::plugin {
namespace {

constexpr double kMissedBy = 0.05;  // predicted against real peak
constexpr int kSlowOffload = 2;     // times as long as planned, and this much more, so many steps
constexpr std::int64_t kSlowOffloadNs = 20'000'000;
constexpr int kSlowOffloads = 3;

std::size_t unpackedUses(const scheduler::Trace& trace) {
  std::vector<bool> seen(trace.use_value.size(), false);
  for (const auto& event : trace.events) {
    if (event.kind == scheduler::TraceEvent::Kind::kUnpack) seen.at(event.id) = true;
  }
  return static_cast<std::size_t>(std::count(seen.begin(), seen.end(), true));
}

std::size_t unpackedUses(const Plan& plan) {
  return static_cast<std::size_t>(
      std::count_if(plan.events_of_use.begin(), plan.events_of_use.end(),
                    [](const auto& events) { return !events.empty(); }));
}

// The same ops, but more of a backward pass than was recorded. Less is no reason: an exception may
// have ended it.
bool ranMoreBackward(const StepSummary& summary) {
  return summary.recorded && summary.off_plan && summary.plan != nullptr &&
         summary.trace.signature == summary.plan->signature &&
         unpackedUses(summary.trace) > unpackedUses(*summary.plan);
}

}  // namespace

void Session::judgeStep(const StepSummary& summary, const allocator::Statistics& memory) {
  debugStep(memory);
  base_bytes_ = step_base_bytes_;
  Program* const known = programOf(summary);
  if (known != nullptr) ++known->steps;
  if (known != nullptr && !budget()) notePlainPeak(*known, memory);
  const bool spilled =
      spilled_bytes_ > spilled_before_step_ || dropped_online_bytes_ > dropped_before_step_;
  if (summary.trusted && !summary.off_plan) judgePlan(summary, memory, spilled, *known);
  if (ranMoreBackward(summary)) known->askAgain();
  if (spilled) judgeSpilling(summary, known);
  const std::int64_t new_violations = memory.budget_violations - violations_;
  violations_ = memory.budget_violations;
  if (new_violations > 0) metrics_.addBudgetViolations(new_violations);
}

void Session::debugStep(const allocator::Statistics& memory) const {
  debug(fmt::format(
      "step {}: live {} peak {}, mapped {} peak {}, cached {}, spilled {}, recomputed {}, dropped "
      "{}, blocks placed {}, not as placed {}",
      steps_, memory.allocated_bytes, memory.allocated_peak_bytes, memory.mapped_bytes,
      memory.mapped_peak_bytes, memory.cached_bytes, spilled_bytes_ - spilled_before_step_,
      recomputed_ops_ - replays_before_step_, dropped_online_bytes_ - dropped_before_step_,
      memory.planned_allocations - allocator_before_step_.planned_allocations,
      memory.plan_deviations - allocator_before_step_.plan_deviations));
}

// nullptr: not known which program it was.
Session::Program* Session::programOf(const StepSummary& summary) {
  if (summary.plan && !summary.off_plan) return &programs_[summary.plan->signature];
  if (summary.recorded) return &programs_[summary.trace.signature];
  return budget() ? nullptr : &programs_[last_signature_];
}

// Both of the same step, the largest: a budget is peak less a share of the activations.
void Session::notePlainPeak(Program& known, const allocator::Statistics& memory) const {
  if (memory.allocated_peak_bytes < known.plain_peak_bytes) return;
  known.plain_peak_bytes = memory.allocated_peak_bytes;
  if (step_activation_bytes_ > 0) known.activation_bytes = step_activation_bytes_;
}

// The step trusted its plan and followed it to its end.
void Session::judgePlan(const StepSummary& summary, const allocator::Statistics& memory,
                        bool spilled, Program& known) const {
  const Plan& plan = *summary.plan;
  if (known.plan.get() == &plan) noteTrustedStep(known, summary.compared_whole);
  known.steady_peak_bytes = std::max(known.steady_peak_bytes, memory.allocated_peak_bytes);
  const double predicted = static_cast<double>(plan.predicted_peak_bytes);
  const double error = (static_cast<double>(memory.allocated_peak_bytes) - predicted) / predicted;
  // What a step that waited was planned beside, steps without a plan, is smaller by now.
  const bool missed = std::abs(error) > kMissedBy && !summary.waited;
  if (plan.feasible && (missed || spilled)) known.askAgain();
  // The file's pages no longer fit into memory, say: computing again may be quicker now.
  const bool slow =
      offload_ns_ - offload_ns_before_step_ > kSlowOffload * plan.host_ns + kSlowOffloadNs;
  known.slow_offloads = slow ? known.slow_offloads + 1 : 0;
  if (known.slow_offloads == kSlowOffloads) known.askAgain();
}

// Without a plan of its own it fitted until now, or is a new one.
void Session::judgeSpilling(const StepSummary& summary, Program* known) {
  const bool no_plan = summary.plan == nullptr || (summary.recorded && summary.off_plan);
  if (no_plan && !planning_) {
    const bool fitted = known != nullptr && known->asked && known->plan == nullptr;
    if (fitted) known->askAgain();
    if (steps_to_record_ == 0 && (known == nullptr || known->replan)) {
      steps_to_record_ = known == nullptr ? record_until_seen_ : 2;
      if (known == nullptr) record_until_seen_ = std::min(2 * record_until_seen_, kMostUntilSeen);
      said_fits_ = false;
    }
  }
  if (summary.recorded) {
    steps_to_record_ = std::min(steps_to_record_, 2);
    record_until_seen_ = kRecordUntilSeen;
  }
}

}  // namespace ebbtide::plugin
