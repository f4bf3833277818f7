#include "fit/budget_costs.hpp"

#include <algorithm>
#include <utility>

#include "ebbtide/scheduler/step_search.hpp"
#include "in_parallel.hpp"

namespace ebbtide::cli {

using scheduler::Bytes;

namespace {

constexpr Bytes kMiB = 1 << 20;

Bytes inWholeMiB(Bytes bytes) {
  return (bytes + kMiB - 1) / kMiB * kMiB;
}

std::optional<double> overheadOf(const RecordedStep& step, Bytes cap, const CostSearch& search) {
  if (step.plain_peak_bytes <= cap) return 0;
  const scheduler::StepSearch steps(
      {.planner = search.planner, .planning_time = search.planning_time}, nullptr);
  const scheduler::PlannedStep planned = steps.best(step.trace, step.graph, cap);
  if (!planned.result.feasible) return std::nullopt;
  return planned.overheadRatio(step.trace);
}

}  // namespace

std::vector<BudgetCost> costsOf(const RecordedStep& step, const scheduler::BudgetMargins& margins,
                                std::vector<Bytes> budgets, const CostSearch& search) {
  std::sort(budgets.begin(), budgets.end());
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  std::vector<BudgetCost> costs(budgets.size());
  inParallel(costs.size(), search.threads, [&](std::size_t i) {
    costs[i] = {budgets[i], overheadOf(step, margins.capBytes(budgets[i]), search)};
  });
  for (std::size_t i = 1; i < costs.size(); ++i) {
    const auto& before = costs[i - 1].overhead_ratio;
    auto& ratio = costs[i].overhead_ratio;
    if (before && (!ratio || *before < *ratio)) ratio = before;
  }
  return costs;
}

Bytes keepingBudget(Bytes plain_peak_bytes, const scheduler::BudgetMargins& margins) {
  return margins.budgetWithRoomFor(plain_peak_bytes + margins.unplanned_bytes);
}

std::vector<Bytes> tableBudgets(Bytes smallest, Bytes keeping, std::size_t most) {
  const Bytes first = inWholeMiB(smallest), last = std::max(first, inWholeMiB(keeping));
  const auto steps = std::min<Bytes>(static_cast<Bytes>(most) - 1, (last - first) / kMiB);
  std::vector<Bytes> budgets{first};
  for (Bytes i = 1; i <= steps; ++i) {
    budgets.push_back(i == steps ? last : inWholeMiB(first + (last - first) / steps * i));
  }
  return budgets;
}

}  // namespace ebbtide::cli
