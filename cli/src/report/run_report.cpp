#include "report/run_report.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "checked_json.hpp"
#include "text_file.hpp"

namespace ebbtide::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kMostOps = 10000;  // of a map; a report of ours has some dozens

std::map<std::string, std::int64_t> countsAt(const json& tree, const char* key) {
  std::map<std::string, std::int64_t> counts;
  const json& object = at(tree, {key});
  if (!object.is_object()) return counts;
  for (const auto& [name, value] : object.items()) {
    if (value.is_number_integer() && counts.size() < kMostOps) counts[name] = value;
  }
  return counts;
}

// Pairs up to the shorter list's end, by rising time.
std::vector<std::pair<double, double>> timelineOf(const json& tree, const char* kind) {
  const std::vector<double> seconds = numbersAt(tree, {"timeline", "seconds"});
  const std::vector<double> bytes = numbersAt(tree, {"timeline", kind});
  std::vector<std::pair<double, double>> timeline;
  for (std::size_t i = 0; i < std::min(seconds.size(), bytes.size()); ++i) {
    timeline.emplace_back(seconds[i], std::max(bytes[i], 0.0));
  }
  std::stable_sort(timeline.begin(), timeline.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return timeline;
}

std::optional<RunReport::Plan> planOf(const json& tree) {
  const json& plan = at(tree, {"plan"});
  if (!plan.is_object()) return std::nullopt;
  return RunReport::Plan{.planner = textAt(plan, {"planner"}),
                         .overhead_ratio = numberAt(plan, {"overhead_ratio"}),
                         .plan_seconds = numberAt(plan, {"plan_seconds"}),
                         .recomputed_ops = integerAt(plan, {"recomputed_ops"}),
                         .replays_ahead = integerAt(plan, {"replays_ahead"}),
                         .decoded_values = integerAt(plan, {"decoded_values"}),
                         .offloaded_values = integerAt(plan, {"offloaded_values"}),
                         .offloaded_bytes = integerAt(plan, {"offloaded_bytes"}),
                         .active_from_step = integerAt(plan, {"active_from_step"})};
}

scheduler::BudgetMargins marginsOf(const json& margins) {
  return {.headroom_share = std::clamp(numberAt(margins, {"headroom_share"}).value_or(0), 0.0, 0.5),
          .least_headroom_bytes = integerAt(margins, {"least_headroom_bytes"}).value_or(0),
          .unplanned_bytes = integerAt(margins, {"unplanned_bytes"}).value_or(0)};
}

// The first of the keys that make a report one which this is without; nullptr: none.
const char* missingKey(const json& tree) {
  for (const char* key : {"version", "torch_version", "mode"}) {
    if (!at(tree, {key}).is_string()) return key;
  }
  for (const char* key : {"rank", "world_size", "steps", "peak_bytes"}) {
    if (!integerAt(tree, {key})) return key;
  }
  return at(tree, {"timeline"}).is_object() ? nullptr : "timeline";
}

// Not a report: `key` is not as a report has it.
std::string whatElse(const nlohmann::json& tree, const std::string& key) {
  if (at(tree, {"traceEvents"}).is_array()) return "a Perfetto trace, not a report";
  if (at(tree, {"ops"}).is_array()) return "a recorded step, not a report";
  return "not a report: " + key + " is missing or of another type";
}

}  // namespace

std::optional<double> RunReport::shareOfBudget() const {
  if (!budget.bytes || *budget.bytes <= 0 || !peaks.mapped_bytes) return std::nullopt;
  return static_cast<double>(*peaks.mapped_bytes) / static_cast<double>(*budget.bytes);
}

std::optional<double> RunReport::recomputeShare() const {
  // The first step may take as long as a thousand others.
  const double all = steps.total_seconds.value_or(steps.median_seconds.value_or(0) *
                                                  static_cast<double>(steps.count));
  if (!totals.recompute_seconds || !(all > 0)) return std::nullopt;
  return *totals.recompute_seconds / all;
}

std::string RunReport::name() const {
  return "rank " + std::to_string(rank);
}

RunReport readRunReport(const std::string& path) {
  const auto tree = parseChecked(readText(path));
  if (!tree) throw std::invalid_argument(path + " is not JSON, or is incomplete");
  if (const char* key = missingKey(*tree)) {
    throw std::invalid_argument(path + " is " + whatElse(*tree, key) +
                                ". EBBTIDE_REPORT writes reports");
  }
  RunReport report;
  report.path = path;
  report.version = textAt(*tree, {"version"});
  report.torch_version = textAt(*tree, {"torch_version"});
  report.mode = textAt(*tree, {"mode"});
  report.memory.dominating = textAt(*tree, {"dominating"});
  report.rank =
      static_cast<int>(std::clamp<std::int64_t>(*integerAt(*tree, {"rank"}), 0, INT32_MAX));
  report.world_size = *integerAt(*tree, {"world_size"});
  report.steps.count = *integerAt(*tree, {"steps"});
  report.budget.bytes = integerAt(*tree, {"budget_bytes"});
  report.memory.base_bytes = integerAt(*tree, {"base_bytes"});
  report.memory.activation_bytes = integerAt(*tree, {"activation_bytes"});
  report.memory.recomputable_bytes = integerAt(*tree, {"recomputable_bytes"});
  report.peaks.plain_bytes = integerAt(*tree, {"plain_peak_bytes"});
  report.peaks.live_bytes = integerAt(*tree, {"peak_bytes"});
  report.peaks.mapped_bytes = integerAt(*tree, {"mapped_peak_bytes"});
  report.peaks.predicted_bytes = integerAt(*tree, {"predicted_peak_bytes"});
  report.budget.smallest_feasible_bytes = integerAt(*tree, {"smallest_feasible_budget_bytes"});
  report.budget.needed_bytes = integerAt(*tree, {"needed_bytes"});
  report.budget.margins = marginsOf(at(*tree, {"margins"}));
  report.budget.whole_bytes = integerAt(*tree, {"margins", "whole_bytes"});
  report.budget.available_bytes = integerAt(*tree, {"margins", "available_bytes"});
  report.memory.others_bytes = integerAt(*tree, {"others_bytes"});
  report.budget.violations = integerAt(*tree, {"budget_violations"});
  report.totals.recomputed_ops = integerAt(*tree, {"recomputed_ops"});
  report.totals.decoded_values = integerAt(*tree, {"decoded_values"});
  report.totals.offloaded_bytes = integerAt(*tree, {"offloaded_bytes"});
  report.totals.spilled_bytes = integerAt(*tree, {"spilled_bytes"});
  report.totals.dropped_online_bytes = integerAt(*tree, {"dropped_online_bytes"});
  report.checks.rehearsed_steps = integerAt(*tree, {"rehearsed_steps"});
  report.steps.first_seconds = numberAt(*tree, {"step_seconds", "first"});
  report.steps.median_seconds = numberAt(*tree, {"step_seconds", "median"});
  report.steps.total_seconds = numberAt(*tree, {"step_seconds", "total"});
  report.totals.recompute_seconds = numberAt(*tree, {"recompute_seconds"});
  report.pass_through = at(*tree, {"pass_through"}) == true;
  report.ended = at(*tree, {"ended"}) != false;
  report.plan = planOf(*tree);
  report.steps.first_planned = integerAt(*tree, {"first_planned_step"});
  report.timeline.live = timelineOf(*tree, "live_bytes");
  report.timeline.mapped = timelineOf(*tree, "mapped_bytes");
  report.memory.kept_bytes = countsAt(*tree, "kept_bytes");
  report.checks.audited = countsAt(*tree, "audited");
  report.checks.rejected = countsAt(*tree, "rejected");
  return report;
}

std::vector<RunReport> readRunReports(const std::string& folder) {
  std::vector<RunReport> reports;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") reports.push_back(readRunReport(entry.path()));
  }
  std::sort(reports.begin(), reports.end(),
            [](const RunReport& a, const RunReport& b) { return a.rank < b.rank; });
  return reports;
}

}  // namespace ebbtide::cli
