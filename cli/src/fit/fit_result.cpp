#include "fit/fit_result.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ebbtide/metrics/or_null.hpp"
#include "ebbtide/scheduler/budget_form.hpp"
#include "shown_values.hpp"
#include "terminal_text.hpp"
#include "text_table.hpp"

namespace ebbtide::cli {
namespace {

using metrics::orNull;
using nlohmann::json;

bool isOfGpu(const FitResult& result) {
  return result.report.memory.others_bytes.value_or(0) > 0;
}

std::string costText(const FitResult& result, const BudgetCost& cost) {
  if (!cost.overhead_ratio)
    return isOfGpu(result) ? "each step copies to the host" : "each step writes to disk";
  if (*cost.overhead_ratio <= 0) return "no more time";
  return "+" + shownShare(cost.overhead_ratio) + " time";
}

using Kind = scheduler::BudgetForm::Kind;

// Nothing: ranks have budgets of their own.
std::optional<Kind> kindOfAll(const std::string& text) {
  if (text.find('=') != std::string::npos) return std::nullopt;
  return scheduler::BudgetForm::parse("budget", text).kind;
}

// "80% (12.40 GiB)", "auto (about 12.40 GiB)": what is free changes; "249MiB" alone.
std::string budgetText(const FitBudget& budget) {
  const std::string text = forTerminal(budget.text);
  const auto kind = kindOfAll(budget.text);
  if (budget.bytes == 0 || kind == Kind::kBytes) return text;
  return fmt::format("{} ({}{})", text, kind == Kind::kAvailable ? "about " : "",
                     shownBytes(budget.bytes));
}

// Of the host's memory; a GPU's budget has no more than the device.
std::string moreThanThereIs(const FitResult& result) {
  const auto available = result.report.budget.available_bytes.value_or(0);
  // With budgets by rank, a rank may take more than its part.
  if (available == 0 || isOfGpu(result) || !kindOfAll(result.budget->text)) return "";
  if (result.budget->bytes <= available) return "";
  return fmt::format(
      "but a rank can have {} here now: the kernel may end a process that takes more. To take "
      "what there is: EBBTIDE_BUDGET=auto\n",
      shownBytes(available));
}

std::string smallestText(const FitResult& result) {
  return inMiB(result.smallestBudgetBytes().value_or(0));
}

json costJson(const BudgetCost& cost) {
  return {{"budget_bytes", cost.budget_bytes}, {"overhead_ratio", orNull(cost.overhead_ratio)}};
}

std::string verdictText(const FitResult& result) {
  if (!result.fits) return "";
  const std::string budget = budgetText(*result.budget);
  if (!*result.fits) {
    return fmt::format("does not fit {}: the smallest budget is {}\n", budget,
                       smallestText(result));
  }
  return fmt::format("fits {}{}\n", budget,
                     result.at_budget ? ": " + costText(result, *result.at_budget) : "") +
         moreThanThereIs(result);
}

std::string plainText(const FitResult& result) {
  std::string text =
      fmt::format("without a budget: peak {}", shownBytes(result.report.peaks.plain_bytes));
  if (isOfGpu(result))
    text += fmt::format(" beside {} in use outside of PyTorch's allocator",
                        shownBytes(result.report.memory.others_bytes));
  text += fmt::format(", activations {}", shownBytes(result.report.memory.activation_bytes));
  if (result.report.steps.median_seconds.value_or(0) > 0)
    text += fmt::format(", {} a step", shownSeconds(result.report.steps.median_seconds));
  if (result.ranks > 1)
    text += fmt::format(" ({}, which needs most of {} ranks)", result.report.name(), result.ranks);
  return text + "\n";
}

std::string statusText(const FitResult& result) {
  if (!result.fits) return "";
  if (!*result.fits) return "does not fit";
  return "fits" + (result.at_budget ? ", " + costText(result, *result.at_budget) : "");
}

}  // namespace

std::string inMiB(std::int64_t bytes) {
  constexpr std::int64_t kMiB = 1 << 20;
  return fmt::format("{}MiB", (bytes + kMiB - 1) / kMiB);
}

std::optional<std::int64_t> FitResult::smallestBudgetBytes() const {
  auto smallest = report.budget.smallest_feasible_bytes;
  if (!smallest) return smallest;
  if (fits.value_or(false) && budget && budget->bytes > 0)
    smallest = std::min(*smallest, budget->bytes);
  return held_bytes > 0 ? std::min(*smallest, held_bytes) : smallest;
}

std::string FitResult::text() const {
  std::string text = verdictText(*this);
  text += fmt::format("smallest budget: EBBTIDE_BUDGET={}", smallestText(*this));
  if (!table.empty()) text += fmt::format(" ({})", costText(*this, table.front()));
  text += "\n" + plainText(*this);
  if (table.empty()) return text;
  TextTable rows({{"budget"}, {"predicted", /*right=*/false}});
  for (const BudgetCost& cost : table) rows.add({inMiB(cost.budget_bytes), costText(*this, cost)});
  return text + "\n" + rows.text();
}

json FitResult::toJson() const {
  json tree = {{"fits", orNull(fits)}};
  if (value) tree["value"] = *value;
  if (!problem.empty()) {
    tree["text"] = problem;
    return tree;
  }
  const std::string verdict = verdictText(*this);
  tree["text"] = verdict.substr(0, verdict.find('\n'));
  tree["budget_bytes"] = budget && budget->bytes > 0 ? json(budget->bytes) : json();
  const auto available = report.budget.available_bytes.value_or(0);  // 0: not known
  tree["available_bytes"] = available > 0 ? json(available) : json();
  tree["overhead_ratio"] = at_budget ? orNull(at_budget->overhead_ratio) : json();
  tree["smallest_budget_bytes"] = orNull(smallestBudgetBytes());
  tree["plain_peak_bytes"] = orNull(report.peaks.plain_bytes);
  tree["activation_bytes"] = orNull(report.memory.activation_bytes);
  tree["step_seconds"] = orNull(report.steps.median_seconds);
  tree["steps"] = report.steps.count;
  tree["ranks"] = ranks;
  tree["rank"] = report.rank;
  tree["table"] = json::array();
  for (const BudgetCost& cost : table) tree["table"].push_back(costJson(cost));
  return tree;
}

std::string FitOfValues::text() const {
  TextTable rows({{"value"}, {"smallest budget"}, {"peak without"}, {"", /*right=*/false}});
  std::vector<FitResult> by_value = results;
  std::sort(by_value.begin(), by_value.end(),
            [](const FitResult& a, const FitResult& b) { return a.value < b.value; });
  for (const FitResult& one : by_value) {
    const std::string value = std::to_string(*one.value);
    if (!one.problem.empty()) {
      rows.add({value, "-", "-", one.problem});
    } else {
      rows.add(
          {value, smallestText(one), shownBytes(one.report.peaks.plain_bytes), statusText(one)});
    }
  }
  std::string text;
  if (budget && largest) {
    text = fmt::format("the largest that fits {}: {}\n\n", budgetText(*budget), *largest);
  } else if (budget) {
    text = fmt::format("none of the values fits {}\n\n", budgetText(*budget));
  }
  return text + rows.text();
}

json FitOfValues::toJson() const {
  json tree = {{"largest", orNull(largest)},
               {"budget_bytes", budget && budget->bytes > 0 ? json(budget->bytes) : json()},
               {"values", json::array()}};
  for (const FitResult& one : results) tree["values"].push_back(one.toJson());
  return tree;
}

}  // namespace ebbtide::cli
