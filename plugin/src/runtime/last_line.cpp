#include "runtime/last_line.hpp"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "config/rank_socket.hpp"
#include "ebbtide/metrics/ask_ranks.hpp"
#include "runtime/run_summary.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::Bytes;

constexpr auto kForOthers = std::chrono::milliseconds(100);  // that the program's end may wait

Bytes peakIn(const std::string& status) {
  const auto tree = nlohmann::json::parse(status, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json::json_pointer peak("/memory/peak_mapped_bytes");
  return tree.is_object() && tree.contains(peak) && tree[peak].is_number_integer()
             ? tree[peak].get<Bytes>()
             : 0;
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
                 .violations = ended.budget.verdict().violations(held)};
  if (largest != nullptr) run.plain_peak_bytes = largest->plain_peak_bytes;
  if (largest != nullptr) run.activation_bytes = largest->activation_bytes;
  const double step_ns = 1e9 * steps.figures.totalSeconds();
  if (step_ns > 0) {
    run.recompute_share = static_cast<double>(done.recompute_ns) / step_ns;
    run.copy_share = static_cast<double>(done.offload_ns) / step_ns;
  }
  ended.plans.outlook().addTo(held, run);
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
  const std::string folder = RankSocket(config.socket_dir, config.job_id, config.rank).jobFolder();
  const Bytes whole = run.budget_bytes.value_or(run.peak_bytes);
  if (config.rank == 0) {
    std::string others;
    if (config.local_world_size > 1) {
      for (const auto& [rank, status] : metrics::askRanks(folder, "/v1/status", kForOthers)) {
        if (rank != 0 && peaksDiffer(peakIn(status), run.peak_bytes, whole))
          others += fmt::format("; rank {}'s peak {}", rank, formatBytes(peakIn(status)));
      }
    }
    return ended.lines.say(describe(run) + others);
  }
  const std::string first = metrics::askRank(0, folder, "/v1/status", kForOthers);
  if (peaksDiffer(run.peak_bytes, peakIn(first), whole)) ended.lines.say(describe(run));
} catch (const std::exception& error) {
  ended.lines.debug(std::string("no summary: ") + error.what());
}

}  // namespace ebbtide::plugin
