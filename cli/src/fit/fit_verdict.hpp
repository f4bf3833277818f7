// FitVerdict: does a measured step fit a budget, as far as its figures tell?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebbtide/scheduler/rank_budgets.hpp"
#include "report/run_report.hpp"

namespace ebbtide::cli {

enum class FitVerdict : std::uint8_t {
  kFits,
  kDoesNotFit,
  // Below the budget that a training would name, which has some to spare, but not below what its
  // steps need: a run within it tells.
  kUnsure,
};

// Steps may need a little less than is computed, and what lies in no block is not all in use.
inline constexpr double kUnsureShare = 0.03;

// Of several ranks one recorded step may have had DDP's first buckets and those that take their
// place, 3 of 22 MiB in fit_train.py, as PyTorch's watchdog was late: the next ones need less.
inline constexpr double kUnsureShareOfRanks = 0.15;

// What lies in no block is taken off by the margins of the last step, which the need of later steps
// (recorded_run.hpp) has in it: what is left is their floor. That of another step may have less in
// it, so that a budget is tried in vain. Throws std::invalid_argument: the report is without the
// figures.
FitVerdict judgeFit(const RunReport& report, std::int64_t budget_bytes);

// Of a rank, as EBBTIDE_BUDGET would have it; nothing: no entry is for it. Throws
// std::invalid_argument.
std::optional<std::int64_t> budgetOf(const RunReport& report, const scheduler::RankBudgets& budgets,
                                     const std::string& name);

// The budget of the run that tells whether `bytes` hold: 1 % less. The next run has another plan,
// and may exceed what this one holds by a few pages.
std::string budgetToTry(std::int64_t bytes);
// The same of each rank's. If an entry is of what a step takes, all stay as they are `written`:
// such a rank's first step has none.
std::string budgetToTry(const std::vector<RunReport>& reports,
                        const scheduler::RankBudgets& budgets, const std::string& name,
                        const std::string& written);

bool boundsNobody(const std::vector<RunReport>& reports, const scheduler::RankBudgets& budgets);

// Less than the named budget by more than kUnsureShare, and named by the same margins for what
// these reports need: a run within it tells whether it will do. In whole MiB, as that run's
// variable has it. Nothing: there is none.
std::optional<std::int64_t> smallerBudgetToTry(const std::vector<RunReport>& reports,
                                               std::int64_t named_bytes);

// The first rank of that verdict; nullptr: there is none.
const RunReport* rankOf(FitVerdict verdict, const std::vector<RunReport>& reports,
                        const scheduler::RankBudgets& budgets, const std::string& name);

// Of all ranks that have a budget: one that does not fit decides, then one that is not sure.
FitVerdict judgeFit(const std::vector<RunReport>& reports, const scheduler::RankBudgets& budgets,
                    const std::string& name);

}  // namespace ebbtide::cli
