// What a Session makes of a step that is over: was its plan right, and is the program to be
// recorded again?
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/system_time.hpp"
#include "runtime/session.hpp"

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

bool spilled(const ExecutorCounters::Totals& done) {
  return done.spilled_bytes > 0 || done.dropped_online_bytes > 0;
}

const char* planUse(const StepSummary& summary) {
  if (summary.plan == nullptr) return "none";
  if (summary.off_plan) return "left";
  return summary.trusted ? "followed" : "rehearsed";
}

// The same ops, but more of a backward pass than was recorded. Less is no reason: an exception may
// have ended it.
bool ranMoreBackward(const StepSummary& summary) {
  return summary.recorded && summary.off_plan && summary.plan != nullptr &&
         summary.trace.signature == summary.plan->signature &&
         unpackedUses(summary.trace) > unpackedUses(*summary.plan);
}

}  // namespace

void Session::judgeStep(const Held& held, const StepSummary& summary,
                        const allocator::Statistics& memory) {
  base_bytes_ = begun_.memory.allocated_bytes;
  Program* known = programs_.programOf(summary);
  if (known == nullptr && !budget()) known = &programs_[programs_.last()];
  if (known != nullptr) ++known->steps;
  if (known != nullptr && !budget()) notePlainPeak(held, *known, memory);
  const ExecutorCounters::Totals done = counters_.totals() - begun_.executor;
  debugStep(held, summary, memory, done);
  if (summary.followed) counters_.addFollowedStep();
  if (summary.trusted && !summary.off_plan) judgePlan(held, summary, memory, done, *known);
  if (ranMoreBackward(summary)) known->askAgain();
  if (spilled(done)) judgeSpilling(held, summary, known);
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

// Both of the same step, the largest: a budget is peak less a share of the activations.
void Session::notePlainPeak(const Held&, Program& known,
                            const allocator::Statistics& memory) const {
  if (memory.allocated_peak_bytes < known.plain_peak_bytes) return;
  known.plain_peak_bytes = memory.allocated_peak_bytes;
  if (begun_.activation_bytes > 0) known.activation_bytes = begun_.activation_bytes;
}

// The step trusted its plan and followed it to its end.
void Session::judgePlan(const Held&, const StepSummary& summary,
                        const allocator::Statistics& memory, const ExecutorCounters::Totals& done,
                        Program& known) const {
  const Plan& plan = *summary.plan;
  known.steady_peak_bytes = std::max(known.steady_peak_bytes, memory.allocated_peak_bytes);
  const double predicted = static_cast<double>(plan.predicted_peak_bytes);
  const double error = (static_cast<double>(memory.allocated_peak_bytes) - predicted) / predicted;
  // What a step that waited was planned beside, steps without a plan, is smaller by now.
  const bool missed = std::abs(error) > kMissedBy && !summary.waited;
  if (plan.feasible && (missed || spilled(done))) known.askAgain();
  // The file's pages no longer fit into memory, say: computing again may be quicker now.
  const bool slow = done.offload_ns > kSlowOffload * plan.host_ns + kSlowOffloadNs;
  known.slow_offloads = slow ? known.slow_offloads + 1 : 0;
  if (known.slow_offloads == kSlowOffloads) known.askAgain();
}

// Without a plan of its own it fitted until now, or is a new one.
void Session::judgeSpilling(const Held& held, const StepSummary& summary, Program* known) {
  const bool no_plan = summary.plan == nullptr || (summary.recorded && summary.off_plan);
  if (no_plan && !planning_) {
    const bool fitted = known != nullptr && known->asked && known->plan == nullptr;
    if (fitted) known->askAgain();
    if (!to_record_.any() && (known == nullptr || known->replan)) {
      if (known == nullptr) {
        to_record_.watchForReturn();
      } else {
        to_record_.atLeast(2);
      }
      budget_.forget(held, RankBudget::Message::kFits);
    }
  }
  if (summary.recorded) to_record_.noteSeen();
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
