#include "runtime/budget/budget_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "config/available_memory.hpp"
#include "ebbtide/scheduler/rank_actions.hpp"
#include "job/job_versions.hpp"
#include "runtime/budget/rank_budget.hpp"

namespace ebbtide::plugin {
namespace {

std::string unusedText(const std::vector<std::string>& entries, const std::string& there) {
  return fmt::format("EBBTIDE_BUDGET: {} {} for nothing that is there: the job has {}",
                     fmt::join(entries, ", "), entries.size() == 1 ? "is" : "are", there);
}

std::vector<std::int32_t> allRanks(const Config& config) {
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(std::max(1, config.world_size)));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

void BudgetCheck::checkRanks() {
  if (!config_->budget.by_rank || config_->rank != 0) return;
  if (checked_ranks_.exchange(config_->world_size) == config_->world_size) return;
  const std::vector<std::int32_t> ranks = allRanks(*config_);
  const auto unused = config_->budget.by_rank->forNoRankOf(static_cast<std::int32_t>(ranks.size()));
  if (!unused.empty()) warn_(unusedText(unused, ranksText(ranks)));
}

void BudgetCheck::checkStages(const std::vector<std::int32_t>& stages) {
  if (std::exchange(checked_stages_, true)) return;
  const auto unused = config_->budget.by_rank->forNoStageOf(stages);
  if (!unused.empty()) warn_(unusedText(unused, stagesText(stages)));
}

// Without messages the stages are the ranks; the first step may be one of another kind. Where names
// say otherwise, one rank alone knows all of them.
void BudgetCheck::noteStep(const StepSummary& summary, std::int64_t steps) {
  const bool asked =
      config_->budget.by_rank && config_->budget.by_rank->namesStages() && config_->rank == 0;
  if (!asked || checked_stages_ || !summary.recorded) return;
  exchanges_messages_ = exchanges_messages_ || !summary.trace.messages.empty();
  const std::vector<std::int32_t> stages = scheduler::namedStages(summary.trace);
  if (exchanges_messages_ || steps < 2 || (!stages.empty() && config_->world_size > 1)) return;
  checkStages(stages.empty() ? allRanks(*config_) : stages);
}

void BudgetCheck::checkMemory(std::int64_t budget_bytes, std::int64_t reachable_bytes) {
  if (checked_memory_of_.exchange(budget_bytes) == budget_bytes) return;
  const std::string text = aboveMemory(budget_bytes, {.machine = machineMemoryBytes(),
                                                      .group_limit = groupLimitBytes(),
                                                      .reachable = reachable_bytes});
  if (!text.empty()) warn_(text);
}

}  // namespace ebbtide::plugin
