// FitResult: what `ebbtide fit` found, in words and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fit/budget_costs.hpp"
#include "report/run_report.hpp"

namespace ebbtide::cli {

struct FitBudget {
  std::string text;        // as it was given: "80%"
  std::int64_t bytes = 0;  // of the rank that needs most; 0: no entry is for it
};

// Of one run of the command.
struct FitResult {
  std::optional<std::int64_t> value;  // of --values
  std::string problem;                // not empty: nothing was measured
  RunReport report;                   // of the rank that needs most
  std::size_t ranks = 0;
  std::optional<FitBudget> budget;
  std::optional<bool> fits;
  std::optional<BudgetCost> at_budget;  // where it fits
  std::int64_t held_bytes = 0;          // a smaller budget that a run has held; 0: none was tried
  std::vector<BudgetCost> table;        // by rising budget, the smallest one first

  // What training would name, or a budget that a run has held though it is less.
  std::optional<std::int64_t> smallestBudgetBytes() const;
  std::string text() const;
  nlohmann::json toJson() const;
};

struct FitOfValues {
  std::vector<FitResult> results;  // in the order of the runs
  std::optional<FitBudget> budget;
  std::optional<std::int64_t> largest;  // that fits

  std::string text() const;
  nlohmann::json toJson() const;
};

// "EBBTIDE_BUDGET=143MiB" is what a training takes: rounded up.
std::string inMiB(std::int64_t bytes);

}  // namespace ebbtide::cli
