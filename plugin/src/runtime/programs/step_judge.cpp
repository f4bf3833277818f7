#include "runtime/programs/step_judge.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace ebbtide::plugin {
namespace {

constexpr double kMissedBy = 0.05;  // predicted against real peak
constexpr int kSlowOffload = 2;     // times as long as planned, and this much more
constexpr std::int64_t kSlowOffloadNs = 20'000'000;

std::size_t unpackedUses(const scheduler::Trace& trace) {
  std::vector<bool> seen(trace.use_value.size(), false);
  for (const auto& event : trace.events) {
    if (event.kind == scheduler::TraceEvent::Kind::kUnpack) seen.at(event.id) = true;
  }
  return static_cast<std::size_t>(std::count(seen.begin(), seen.end(), true));
}

std::size_t unpackedUses(const Plan& plan) {
  return static_cast<std::size_t>(
      std::count_if(plan.uses.events.begin(), plan.uses.events.end(),
                    [](const auto& events) { return !events.empty(); }));
}

bool spilled(const ExecutorCounters::Totals& done) {
  return done.spilled_bytes > 0 || done.dropped_online_bytes > 0;
}

// The same ops, but more of a backward pass than was recorded. Less is no reason: an exception may
// have ended it.
bool ranMoreBackward(const StepSummary& summary) {
  return summary.recorded && summary.off_plan && summary.plan != nullptr &&
         summary.trace.signature == summary.plan->signature &&
         unpackedUses(summary.trace) > unpackedUses(*summary.plan);
}

bool missed(const JudgedStep& step, const Plan& plan) {
  const double predicted = static_cast<double>(plan.predicted.peak_bytes);
  const double error =
      (static_cast<double>(step.memory.allocated_peak_bytes) - predicted) / predicted;
  // What a step that waited was planned beside, steps without a plan, is smaller by now.
  return std::abs(error) > kMissedBy && !step.summary.waited;
}

void judgePlan(const JudgedStep& step, const Program* program, StepVerdict& verdict) {
  const Plan& plan = *step.summary.plan;
  verdict.followed_plan = true;
  verdict.peak_bytes = step.memory.allocated_peak_bytes;
  verdict.plan_again = plan.feasible && (missed(step, plan) || verdict.spills);
  // The file's pages no longer fit into memory, say: computing again may be quicker now.
  verdict.offloads_slowly =
      step.done.offload_ns > kSlowOffload * plan.predicted.host_ns + kSlowOffloadNs;
  if (verdict.offloads_slowly && program != nullptr &&
      program->in_force.slow_offloads + 1 == StepVerdict::kSlowOffloads)
    verdict.plan_again = true;
}

}  // namespace

StepVerdict verdictOn(const JudgedStep& step, const Program* program, bool planning) {
  const StepSummary& summary = step.summary;
  StepVerdict verdict;
  verdict.spills = spilled(step.done);
  if (summary.trusted && !summary.off_plan) judgePlan(step, program, verdict);
  if (ranMoreBackward(summary)) verdict.plan_again = true;
  const bool no_plan = summary.plan == nullptr || (summary.recorded && summary.off_plan);
  verdict.spills_unplanned = verdict.spills && no_plan && !planning;
  const bool fitted =
      program != nullptr && program->planning.asked && program->in_force.plan == nullptr;
  if (verdict.spills_unplanned && fitted) verdict.plan_again = true;
  return verdict;
}

}  // namespace ebbtide::plugin
