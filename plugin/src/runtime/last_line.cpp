#include "runtime/last_line.hpp"

#include <fmt/format.h>

#include <chrono>

#include "base/json_integer.hpp"
#include "config/rank_socket.hpp"
#include "ebbtide/metrics/ask_ranks.hpp"
#include "runtime/run/run_summary.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::Bytes;

constexpr auto kForOthers = std::chrono::milliseconds(100);  // that the program's end may wait

RankPeak peakIn(const std::string& status) {
  const auto tree = nlohmann::json::parse(status, nullptr, /*allow_exceptions=*/false);
  return {.bytes = integerIn(tree, "/memory/peak_mapped_bytes"),
          .steps = integerIn(tree, "/steps")};
}

RunSummary summaryOf(const SessionGuard::Held& held, const EndedRun& ended) {
  const JudgedRun& parts = ended.budget.run();
  const StepsSoFar& steps = ended.steps;
  const Program* const largest = steps.programs.largest();
  const auto step_time = steps.stepTime(held);
  const ExecutorCounters::Totals done = parts.counters.totals();
  RunSummary run{.steps = steps.ended,
                 .step_seconds = step_time ? step_time->seconds : 0,
                 .budget_bytes = ended.budget.bytes(),
                 .peak_bytes = steps.figures.mappedPeakBytes(),
                 .others_bytes = parts.trained.othersBytes(),
                 .used_peak_bytes = steps.figures.usedPeakBytes(),
                 .spilled_bytes = done.spilled_bytes,
                 .violations = ended.budget.verdict().violationsOfBudget(held)};
  if (largest != nullptr) run.plain_peak_bytes = largest->plain.peak_bytes;
  if (largest != nullptr) run.activation_bytes = largest->plain.activation_bytes;
  const double step_ns = 1e9 * steps.figures.totalSeconds();
  if (step_ns > 0) {
    run.recompute_share = static_cast<double>(done.recompute_ns) / step_ns;
    run.copy_share = static_cast<double>(done.offload_ns) / step_ns;
  }
  ended.plans.outlook().addTo(held, run);
  if (steps.largest.unrecordedBytes() > 0) {  // a smaller step foresaw the other figure
    const ToldBudgets& told = ended.budget.verdict().told();
    run.half = {.budget_bytes = told.halfBytes(run.plain_peak_bytes, run.activation_bytes)};
  }
  return run;
}

}  // namespace

void sayLastLine(const EndedRun& ended) try {
  const Config& config = *ended.budget.run().config;
  RunSummary run;
  {
    const SessionGuard::Held held = ended.budget.run().guard.hold();
    const BudgetVerdict& verdict = ended.budget.verdict();
    const bool failed = verdict.refusal().stop(held).raised() || verdict.allocationFailed();
    if (ended.steps.ended == 0 || failed) return;
    ended.plans.sayUnsaid(held);
    run = summaryOf(held, ended);
  }
  const std::string folder =
      RankSocket(config.server.socket_dir, config.job_id, config.rank).jobFolder();
  const Bytes whole = run.budget_bytes.value_or(run.peak_bytes);
  const RankPeak own{.bytes = run.peak_bytes, .steps = run.steps};
  if (config.rank == 0) {
    std::string others;
    if (config.local_world_size > 1) {
      for (const auto& [rank, status] : metrics::askRanks(folder, "/v1/status", kForOthers)) {
        const RankPeak other = peakIn(status);
        if (rank != 0 && peaksDiffer(own, other, whole))
          others += fmt::format("; rank {}'s peak {}", rank, formatBytes(other.bytes));
      }
    }
    ended.lines.say(describe(run) + others);
    return;
  }
  const std::string first = metrics::askRank(0, folder, "/v1/status", kForOthers);
  if (peaksDiffer(own, peakIn(first), whole)) ended.lines.say(describe(run));
} catch (const std::exception& error) {
  ended.lines.debug(std::string("no summary: ") + error.what());
}

}  // namespace ebbtide::plugin
