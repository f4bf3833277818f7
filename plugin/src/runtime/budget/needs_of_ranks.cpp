#include "runtime/budget/needs_of_ranks.hpp"

#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "config/rank_socket.hpp"
#include "ebbtide/metrics/ask_ranks.hpp"

namespace ebbtide::plugin {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kForOthers = std::chrono::milliseconds(500);  // that an error may wait
constexpr auto kForOneAnswer = std::chrono::milliseconds(100);
constexpr auto kBetween = std::chrono::milliseconds(10);

// 0: not known.
std::int64_t smallestBudgetIn(const std::string& status) {
  const auto tree = nlohmann::json::parse(status, nullptr, /*allow_exceptions=*/false);
  const auto named = tree.is_object() ? tree.find("smallest_feasible_budget_bytes") : tree.end();
  return named != tree.end() && named->is_number_integer() ? named->get<std::int64_t>() : 0;
}

}  // namespace

NeedsOfRanks askNeedsOfRanks(const Config& config) noexcept try {
  NeedsOfRanks needs;
  const auto& budgets = config.budget.by_rank;
  if (budgets && (budgets->namesRanks() || budgets->namesStages())) return needs;
  const auto others = static_cast<std::size_t>(config.local_world_size - 1);
  const RankSocket socket(config.server.socket_dir, config.job_id, config.rank);
  const auto until = Clock::now() + kForOthers;
  while (needs.size() < others && Clock::now() < until) {
    for (const auto& [rank, status] :
         metrics::askRanks(socket.jobFolder(), "/v1/status", kForOneAnswer)) {
      const std::int64_t bytes = smallestBudgetIn(status);
      const bool other = rank != config.rank && rank < config.world_size;
      if (other && bytes > 0) needs[rank] = bytes;
    }
    if (needs.size() < others) std::this_thread::sleep_for(kBetween);
  }
  return needs;
} catch (const std::exception&) {
  return {};  // the error names the need of its own rank
}

}  // namespace ebbtide::plugin
