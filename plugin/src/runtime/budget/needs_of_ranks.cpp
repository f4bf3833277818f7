#include "runtime/budget/needs_of_ranks.hpp"

#include <unistd.h>

#include <exception>
#include <string>
#include <thread>

#include "base/json_integer.hpp"
#include "config/rank_socket.hpp"
#include "ebbtide/metrics/ask_ranks.hpp"

namespace ebbtide::plugin {
namespace {

using nlohmann::json;

constexpr int kRounds = 5;
constexpr auto kRound = std::chrono::milliseconds(100);  // for answers, and between two rounds
constexpr auto kHolds = std::chrono::seconds(10);

// False: the folder is another job's, of the same id.
bool addAnswers(const Config& config, NeedsOfRanks::ByRank& needs) {
  const RankSocket socket(config.server.socket_dir, config.job_id, config.rank);
  for (const auto& [rank, status] : metrics::askRanks(socket.jobFolder(), "/v1/status", kRound)) {
    const json tree = json::parse(status, nullptr, /*allow_exceptions=*/false);
    if (rank == config.rank && integerIn(tree, "/pid") != ::getpid()) return false;
    if (rank == config.rank || rank >= config.world_size) continue;
    const std::int64_t bytes = integerIn(tree, "/smallest_feasible_budget_bytes");
    if (bytes > 0 && integerIn(tree, "/memory/budget_bytes") > 0) needs[rank] = bytes;
  }
  return true;
}

NeedsOfRanks::ByRank asked(const Config& config) {
  NeedsOfRanks::ByRank needs;
  const auto& budgets = config.budget.by_rank;
  const bool one_budget = !budgets || (!budgets->namesRanks() && !budgets->namesStages());
  if (config.world_size <= 1 || !one_budget) return needs;
  const auto others = static_cast<std::size_t>(config.local_world_size - 1);
  for (int round = 1; round <= kRounds; ++round) {
    if (!addAnswers(config, needs)) return {};
    if (needs.size() >= others || round == kRounds) break;
    std::this_thread::sleep_for(kRound);
  }
  return needs;
}

}  // namespace

NeedsOfRanks::ByRank NeedsOfRanks::ask(const Config& config) noexcept try {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  if (told_at_ != Clock::time_point{} && now - told_at_ < kHolds) return told_;
  told_ = asked(config);
  told_at_ = Clock::now();
  return told_;
} catch (const std::exception&) {
  return {};  // the error names the need of its own rank
}

}  // namespace ebbtide::plugin
