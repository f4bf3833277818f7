#include "fit/fit_verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "ebbtide/scheduler/budget_form.hpp"
#include "fit/budget_costs.hpp"

namespace ebbtide::cli {
FitVerdict judgeFit(const RunReport& report, std::int64_t budget_bytes) {
  if (report.budget.smallest_feasible_bytes.value_or(0) <= 0 ||
      report.budget.needed_bytes.value_or(0) <= 0) {
    throw std::invalid_argument(report.path + ": no step was recorded, so no budget is known");
  }
  if (budget_bytes >= *report.budget.smallest_feasible_bytes) return FitVerdict::kFits;
  const auto least =
      static_cast<double>(*report.budget.needed_bytes - report.budget.margins.unplanned_bytes);
  const double unsure = report.world_size > 1 ? kUnsureShareOfRanks : kUnsureShare;
  if (static_cast<double>(budget_bytes) < (1 - unsure) * least) {
    return FitVerdict::kDoesNotFit;
  }
  return FitVerdict::kUnsure;
}

std::optional<std::int64_t> budgetOf(const RunReport& report, const scheduler::RankBudgets& budgets,
                                     const std::string& name) {
  const auto text = budgets.textOf(report.rank);
  if (!text) return std::nullopt;
  const auto form = scheduler::BudgetForm::parse(name, *text);
  const auto bytes =
      scheduler::resolve(form, {.memory_bytes = report.budget.whole_bytes,
                                .available_bytes = report.budget.available_bytes,
                                .plain_peak_bytes = report.peaks.plain_bytes,
                                .activation_bytes = report.memory.activation_bytes,
                                .others_bytes = report.memory.others_bytes.value_or(0)});
  if (!bytes) {
    throw std::invalid_argument(name + "=" + *text +
                                ": the run's report does not tell what this is of. Write for "
                                "example 30GiB");
  }
  return bytes;
}

std::string budgetToTry(std::int64_t bytes) {
  return fmt::format("{}KiB", (bytes - bytes / 100) / 1024);
}

std::string budgetToTry(const std::vector<RunReport>& reports,
                        const scheduler::RankBudgets& budgets, const std::string& name,
                        const std::string& written) {
  if (budgets.isOfSteps()) return written;
  std::string by_rank;
  std::set<std::string> different;  // "": of a rank without one
  for (const RunReport& report : reports) {
    const auto bytes = budgetOf(report, budgets, name);
    const std::string less = bytes ? budgetToTry(*bytes) : "";
    different.insert(less);
    if (bytes) by_rank += fmt::format("{}rank{}={}", by_rank.empty() ? "" : ",", report.rank, less);
  }
  return different.size() == 1 ? *different.begin() : by_rank;
}

bool boundsNobody(const std::vector<RunReport>& reports, const scheduler::RankBudgets& budgets) {
  return std::none_of(reports.begin(), reports.end(), [&budgets](const RunReport& report) {
    return budgets.textOf(report.rank).has_value();
  });
}

std::optional<std::int64_t> smallerBudgetToTry(const std::vector<RunReport>& reports,
                                               std::int64_t named_bytes) {
  std::int64_t most = 0;
  for (const RunReport& report : reports) {
    most = std::max(most,
                    report.budget.margins.namedBudgetBytes(report.budget.needed_bytes.value_or(0)));
  }
  const double least_named = (1 - kUnsureShare) * static_cast<double>(named_bytes);
  if (most == 0 || static_cast<double>(most) >= least_named) return std::nullopt;
  return most;
}

const RunReport* rankOf(FitVerdict verdict, const std::vector<RunReport>& reports,
                        const scheduler::RankBudgets& budgets, const std::string& name) {
  const auto found = std::find_if(reports.begin(), reports.end(), [&](const RunReport& report) {
    const auto budget = budgetOf(report, budgets, name);
    return budget && judgeFit(report, *budget) == verdict;
  });
  return found != reports.end() ? &*found : nullptr;
}

FitVerdict judgeFit(const std::vector<RunReport>& reports, const scheduler::RankBudgets& budgets,
                    const std::string& name) {
  FitVerdict all = FitVerdict::kFits;
  for (const RunReport& report : reports) {
    const auto budget = budgetOf(report, budgets, name);
    if (!budget) continue;
    const FitVerdict one = judgeFit(report, *budget);
    if (one == FitVerdict::kDoesNotFit || all == FitVerdict::kFits) all = one;
    if (all == FitVerdict::kDoesNotFit) break;
  }
  return all;
}

}  // namespace ebbtide::cli
