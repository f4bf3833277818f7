#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "ebbtide/metrics/or_null.hpp"
#include "given_text.hpp"
#include "report/report_page.hpp"
#include "report/run_report.hpp"
#include "shown_values.hpp"
#include "terminal_text.hpp"
#include "text_file.hpp"
#include "text_table.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

using metrics::orNull;

struct Arguments {
  std::vector<std::string> paths;
  std::string out;
  bool json = false;
};

nlohmann::json rowOf(const RunReport& report) {
  return {{"file", report.path},
          {"rank", report.rank},
          {"mode", report.mode},
          {"budget_bytes", orNull(report.budget.bytes)},
          {"mapped_peak_bytes", orNull(report.peaks.mapped_bytes)},
          {"peak_bytes", orNull(report.peaks.live_bytes)},
          {"plain_peak_bytes", orNull(report.peaks.plain_bytes)},
          {"predicted_peak_bytes", orNull(report.peaks.predicted_bytes)},
          {"budget_ratio", orNull(report.shareOfBudget())},
          {"steps", report.steps.count},
          {"median_step_seconds", orNull(report.steps.median_seconds)},
          {"total_step_seconds", orNull(report.steps.total_seconds)},
          {"recompute_seconds", orNull(report.totals.recompute_seconds)},
          {"recompute_ratio", orNull(report.recomputeShare())},
          {"budget_violations", orNull(report.budget.violations)},
          {"planner", report.plan ? nlohmann::json(report.plan->planner) : nlohmann::json()},
          {"pass_through", report.pass_through}};
}

void printJson(const std::vector<RunReport>& reports) {
  nlohmann::json rows = nlohmann::json::array();
  std::int64_t violations = 0;
  for (const RunReport& report : reports) {
    rows.push_back(rowOf(report));
    violations += std::clamp<std::int64_t>(report.budget.violations.value_or(0), 0, INT32_MAX);
  }
  const nlohmann::json summary = {{"reports", rows}, {"budget_violations", violations}};
  fmt::print("{}\n", summary.dump(1, ' ', true, nlohmann::json::error_handler_t::replace));
}

void printText(const std::vector<RunReport>& reports) {
  TextTable table({{"rank"},
                   {"mode", false},
                   {"mapped peak / budget"},
                   {"plain peak"},
                   {"steps"},
                   {"median step"},
                   {"recompute"},
                   {"violations"},
                   {"plan", false}});
  for (const RunReport& report : reports) {
    table.add({std::to_string(report.rank), forColumns(report.mode),
               shownBytes(report.peaks.mapped_bytes) + " / " + shownBudget(report.budget.bytes),
               shownBytes(report.peaks.plain_bytes), std::to_string(report.steps.count),
               shownSeconds(report.steps.median_seconds), shownShare(report.recomputeShare()),
               shownCount(report.budget.violations),
               report.plan ? forColumns(report.plan->planner) : "none"});
  }
  fmt::print("{}", table.text());
}

int report(const Arguments& arguments) {
  std::vector<RunReport> reports;
  for (const std::string& path : arguments.paths) reports.push_back(readRunReport(path));
  std::stable_sort(reports.begin(), reports.end(),
                   [](const RunReport& a, const RunReport& b) { return a.rank < b.rank; });
  if (!arguments.out.empty()) writeText(arguments.out, reportPage(reports));
  arguments.json ? printJson(reports) : printText(reports);
  return kFeasible;
}

}  // namespace

void addReport(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  auto* verb =
      app.add_subcommand("report", "Show what runs left with EBBTIDE_REPORT, as text or as a page");
  verb->add_option("FILE", arguments->paths, "reports, one for each rank")
      ->required()
      ->type_name("FILE");
  verb->add_option("--out", arguments->out, "write a page (HTML) here, which needs nothing else")
      ->check(givenText())
      ->type_name("FILE");
  verb->add_flag("--json", arguments->json, "a summary as one JSON document on stdout");
  verb->callback([arguments, &exit_code] { exit_code = report(*arguments); });
}

}  // namespace ebbtide::cli
