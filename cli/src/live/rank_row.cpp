#include "live/rank_row.hpp"

#include <algorithm>

#include "checked_json.hpp"
#include "terminal_text.hpp"

namespace ebbtide::cli {
namespace {

constexpr std::size_t kMostHistory = 1000;  // a server of ours sends 120

std::vector<double> latest(const nlohmann::json& tree, const char* name) {
  std::vector<double> numbers = numbersAt(tree, {"history", name});
  if (numbers.size() > kMostHistory) {
    numbers.erase(numbers.begin(), numbers.end() - kMostHistory);
  }
  return numbers;
}

std::string text(const nlohmann::json& tree, std::initializer_list<const char*> keys) {
  return forColumns(textAt(tree, keys).substr(0, 256));
}

}  // namespace

RankRow RankRow::of(const RankAnswer& answer, const std::string& job) {
  const nlohmann::json& tree = answer.document;
  RankRow status{.job = job,
                 .rank = answer.rank,
                 .where = forColumns(answer.where),
                 .problem = forColumns(answer.problem)};
  if (!status.problem.empty()) return status;
  status.host = text(tree, {"host"});
  status.state = text(tree, {"state"});
  status.mode = text(tree, {"mode"});
  status.device = text(tree, {"device"});
  status.planner = text(tree, {"plan", "planner"});
  status.steps.count = integerAt(tree, {"steps"});
  status.steps.last_seconds = numberAt(tree, {"step_seconds", "last"});
  status.steps.median_seconds = numberAt(tree, {"step_seconds", "median"});
  status.memory.budget_bytes = integerAt(tree, {"memory", "budget_bytes"});
  status.memory.live_bytes = integerAt(tree, {"memory", "allocated_bytes"});
  status.memory.peak_bytes = integerAt(tree, {"memory", "peak_mapped_bytes"});
  if (status.memory.peak_bytes.value_or(0) == 0) {
    status.memory.peak_bytes = integerAt(tree, {"memory", "peak_allocated_bytes"});
  }
  status.memory.margin_bytes = integerAt(tree, {"memory", "margin_bytes"});
  status.memory.predicted_peak_bytes = integerAt(tree, {"memory", "predicted_peak_bytes"});
  status.memory.smallest_feasible_bytes = integerAt(tree, {"smallest_feasible_budget_bytes"});
  status.violations = integerAt(tree, {"totals", "budget_violations"});
  status.recompute_ratio = numberAt(tree, {"recompute_ratio"});
  status.history.step_seconds = latest(tree, "step_seconds");
  status.history.peak_bytes = latest(tree, "peak_bytes");
  if (status.state.empty()) status.problem = "its answer has no state";
  return status;
}

bool RankRow::isLimited() const {
  return memory.budget_bytes && *memory.budget_bytes < INT64_MAX;
}

std::optional<std::int64_t> RankRow::boundedPeakBytes() const {
  const auto& peak = memory.peak_bytes;
  if (!peak || !isLimited()) return peak;
  const std::int64_t margin = std::max<std::int64_t>(memory.margin_bytes.value_or(0), 0);
  return *peak > INT64_MAX - margin ? INT64_MAX : *peak + margin;
}

}  // namespace ebbtide::cli
