// BudgetCost: what a budget costs a recorded step in time, by the search and the margins that the
// training itself would use.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ebbtide/scheduler/budget_margins.hpp"
#include "fit/recorded_run.hpp"

namespace ebbtide::cli {

struct BudgetCost {
  scheduler::Bytes budget_bytes = 0;
  // To the step's time; 0: nothing is given up; nothing: no plan fits, so each step writes to disk.
  std::optional<double> overhead_ratio;
};

struct CostSearch {
  std::string planner = "auto";
  std::chrono::milliseconds planning_time{2500};  // of a plan
  unsigned threads = 1;                           // the budgets are what runs in parallel
};

// By rising budget, each budget once; what a smaller budget costs at most, a larger one does.
std::vector<BudgetCost> costsOf(const RecordedStep& step, const scheduler::BudgetMargins& margins,
                                std::vector<scheduler::Bytes> budgets, const CostSearch& search);

// The smallest budget in which nothing is given up.
scheduler::Bytes keepingBudget(scheduler::Bytes plain_peak_bytes,
                               const scheduler::BudgetMargins& margins);

// So many, evenly from the smallest one up to the one in which nothing is given up, in whole MiB;
// fewer where that is no more than so many MiB away.
std::vector<scheduler::Bytes> tableBudgets(scheduler::Bytes smallest, scheduler::Bytes keeping,
                                           std::size_t most);

}  // namespace ebbtide::cli
