// The line that a Session's run ends with.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "config/rank_socket.hpp"
#include "ebbtide/metrics/ask_ranks.hpp"
#include "runtime/run_summary.hpp"
#include "runtime/session.hpp"

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

}  // namespace

RunSummary Session::summary(const Held& held) const {
  const Program* const largest = programs_.largest();
  const auto step_time = stepTime(held);
  const ExecutorCounters::Totals done = counters_.totals();
  RunSummary run{.steps = steps_,
                 .step_seconds = step_time ? step_time->seconds : 0,
                 .budget_bytes = budget(),
                 .peak_bytes = figures_.mappedPeakBytes(),
                 .others_bytes = trained_.othersBytes(),
                 .used_peak_bytes = figures_.usedPeakBytes(),
                 .violations = budget_.verdict().violations(held)};
  if (largest != nullptr) run.plain_peak_bytes = largest->plain_peak_bytes;
  if (largest != nullptr) run.activation_bytes = largest->activation_bytes;
  const double step_ns = 1e9 * figures_.totalSeconds();
  if (step_ns > 0) {
    run.recompute_share = static_cast<double>(done.recompute_ns) / step_ns;
    run.copy_share = static_cast<double>(done.offload_ns) / step_ns;
  }
  outlook_.addTo(held, run);
  return run;
}

// Rank 0 speaks for all ranks. A rank of its machine whose peak differs is told of by the one that
// ends first: the other may be gone later. After an out-of-memory error nothing is said.
void Session::sayAtEnd() try {
  RunSummary run;
  {
    const Held held = mutex_.hold();
    const BudgetVerdict& verdict = budget_.verdict();
    const bool failed = verdict.refusal().stop(held).raised() || verdict.allocationFailed();
    if (steps_ == 0 || failed) return;
    plans_.sayUnsaid(held);
    run = summary(held);
  }
  const std::string folder =
      RankSocket(config_->socket_dir, config_->job_id, config_->rank).jobFolder();
  const Bytes whole = run.budget_bytes.value_or(run.peak_bytes);
  if (config_->rank == 0) {
    std::string others;
    if (config_->local_world_size > 1) {
      for (const auto& [rank, status] : metrics::askRanks(folder, "/v1/status", kForOthers)) {
        if (rank != 0 && peaksDiffer(peakIn(status), run.peak_bytes, whole))
          others += fmt::format("; rank {}'s peak {}", rank, formatBytes(peakIn(status)));
      }
    }
    return say(describe(run) + others);
  }
  const std::string first = metrics::askRank(0, folder, "/v1/status", kForOthers);
  if (peaksDiffer(run.peak_bytes, peakIn(first), whole)) say(describe(run));
} catch (const std::exception& error) {
  debug(std::string("no summary: ") + error.what());
}

}  // namespace ebbtide::plugin
