#include "report/report_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "report/timeline_svg.hpp"
#include "shown_values.hpp"
#include "svg_text.hpp"
#include "terminal_text.hpp"

namespace ebbtide::cli {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --page: #fff; --text: #1f2328; --faint: #59636e; --line: #d1d9e0;
  --card: #f6f8fa; --area: #54aeff; --budget: #cf222e; --predicted: #8250df; --bad: #cf222e }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --text: #e6edf3; --faint: #9198a1;
  --line: #3d444d; --card: #151b23; --area: #1f6feb; --budget: #ff7b72; --predicted: #d2a8ff;
  --bad: #ff7b72 } }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem; background: var(--page);
  color: var(--text); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Helvetica, Arial,
  sans-serif }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem }
h3 { font-size: 1rem; margin: 1rem 0 .3rem }
p, .faint { color: var(--faint); margin: .3rem 0 }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap }
th { color: var(--faint); font-weight: 500 }
th:first-child, td:first-child, td.words { text-align: left }
.bad { color: var(--bad); font-weight: 600 }
.tables { display: flex; flex-wrap: wrap; gap: 0 2.5rem; align-items: flex-start }
svg { width: 100%; height: auto; background: var(--card); border-radius: 6px }
.area { fill: var(--area); fill-opacity: .55; stroke: var(--area) }
.mapped { fill: none; stroke: var(--text); stroke-width: 1.1; stroke-dasharray: 4 3 }
.budget { stroke: var(--budget); stroke-width: 1.6 }
.predicted { stroke: var(--predicted); stroke-width: 1.4; stroke-dasharray: 6 4 }
.grid { stroke: var(--line); stroke-width: .6 }
.label { fill: var(--faint); font-size: 12px }
)";

using Rows = std::vector<std::pair<std::string, std::string>>;

// Names and values; what is not known is left out.
std::string factTable(const std::string& title, const Rows& rows) {
  std::string text;
  for (const auto& [name, value] : rows) {
    if (value == "-") continue;
    text += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escaped(name), escaped(value));
  }
  if (text.empty()) return "";
  return fmt::format("<div><h3>{}</h3>\n<table>\n{}</table></div>\n", escaped(title), text);
}

std::string cell(const std::string& text, bool bad = false) {
  return fmt::format("<td{}>{}</td>", bad ? " class=\"bad\"" : "", escaped(text));
}

std::string summaryTable(const std::vector<RunReport>& reports) {
  std::string text =
      "<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">rank</th><th "
      "scope=\"col\">mode</th><th scope=\"col\">budget</th><th scope=\"col\">mapped peak</th>"
      "<th scope=\"col\">of budget</th><th scope=\"col\">plain peak</th><th "
      "scope=\"col\">steps</th><th scope=\"col\">median step</th><th "
      "scope=\"col\">recompute</th><th scope=\"col\">violations</th><th "
      "scope=\"col\">plan</th></tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const RunReport& report = reports[i];
    const bool over = report.budget.violations.value_or(0) > 0;
    text += fmt::format("<tr><td><a href=\"#run{}\">{}</a></td>", i, report.rank);
    text += cell(report.mode) + cell(shownBudget(report.budget.bytes));
    text += cell(shownBytes(report.peaks.mapped_bytes), over);
    text += cell(shownShare(report.shareOfBudget()), over);
    text += cell(shownBytes(report.peaks.plain_bytes)) + cell(std::to_string(report.steps.count));
    text += cell(shownSeconds(report.steps.median_seconds));
    text += cell(shownShare(report.recomputeShare()));
    text += cell(shownCount(report.budget.violations), over);
    text += cell(report.plan ? report.plan->planner : "none") + "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

std::string memoryTable(const RunReport& report) {
  return factTable("Memory",
                   {{"budget", shownBudget(report.budget.bytes)},
                    {"mapped peak", shownBytes(report.peaks.mapped_bytes)},
                    {"live peak", shownBytes(report.peaks.live_bytes)},
                    {"plain peak", shownBytes(report.peaks.plain_bytes)},
                    {"predicted peak", shownBytes(report.peaks.predicted_bytes)},
                    {"before the first step", shownBytes(report.memory.base_bytes)},
                    {"activations", shownBytes(report.memory.activation_bytes)},
                    {"activations, recomputable", shownBytes(report.memory.recomputable_bytes)},
                    {"smallest budget", shownBytes(report.budget.smallest_feasible_bytes)},
                    {"budget violations", shownCount(report.budget.violations)}});
}

std::string planTable(const RunReport& report) {
  if (!report.plan) return "<div><h3>Plan</h3>\n<p>none was needed, or none was found</p></div>\n";
  const RunReport::Plan& plan = *report.plan;
  return factTable("Plan of one step",
                   {{"planner", plan.planner},
                    {"more time, predicted", shownShare(plan.overhead_ratio)},
                    {"recomputed ops", shownCount(plan.recomputed_ops)},
                    {"recomputed ops, ahead of messages", shownCount(plan.replays_ahead)},
                    {"compressed masks", shownCount(plan.decoded_values)},
                    {"values on the host", shownCount(plan.offloaded_values)},
                    {"bytes on the host", shownBytes(plan.offloaded_bytes)},
                    {"active from step", shownCount(plan.active_from_step)},
                    {"planned in", shownSeconds(plan.plan_seconds)}});
}

std::string stepTable(const RunReport& report) {
  return factTable("Steps",
                   {{"steps", std::to_string(report.steps.count)},
                    {"first", shownSeconds(report.steps.first_seconds)},
                    {"median", shownSeconds(report.steps.median_seconds)},
                    {"all", shownSeconds(report.steps.total_seconds)},
                    {"recomputed ops", shownCount(report.totals.recomputed_ops)},
                    {"recompute time", shownSeconds(report.totals.recompute_seconds)},
                    {"of the time in steps", shownShare(report.recomputeShare())},
                    {"decompressed masks", shownCount(report.totals.decoded_values)},
                    {"written to the host by plans", shownBytes(report.totals.offloaded_bytes)},
                    {"spilled", shownBytes(report.totals.spilled_bytes)},
                    {"verification steps", shownCount(report.checks.rehearsed_steps)}});
}

std::string keptTable(const RunReport& report) {
  std::vector<std::pair<std::string, std::int64_t>> order(report.memory.kept_bytes.begin(),
                                                          report.memory.kept_bytes.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Rows rows;
  for (const auto& [reason, bytes] : order) rows.emplace_back(reason, shownBytes(bytes));
  return factTable("Activations that stay, and why", rows);
}

// By op, those that differed first.
std::string comparedTable(const RunReport& report) {
  std::set<std::string> ops;
  for (const auto* counts : {&report.checks.audited, &report.checks.rejected}) {
    for (const auto& [op, count] : *counts) ops.insert(op);
  }
  if (ops.empty()) return "";
  const auto of = [](const auto& counts, const std::string& op) {
    const auto found = counts.find(op);
    return found == counts.end() ? 0 : found->second;
  };
  std::vector<std::string> order(ops.begin(), ops.end());
  std::stable_sort(order.begin(), order.end(), [&](const std::string& a, const std::string& b) {
    return of(report.checks.rejected, a) > of(report.checks.rejected, b);
  });
  std::string text =
      "<div><h3>Replays compared with their originals</h3>\n<table>\n<tr><th "
      "scope=\"col\">op</th><th scope=\"col\">checked</th><th scope=\"col\">differed</th></tr>\n";
  for (const std::string& op : order) {
    const std::int64_t differed = of(report.checks.rejected, op);
    text += "<tr>" + cell(op) + cell(std::to_string(of(report.checks.audited, op))) +
            cell(std::to_string(differed), differed > 0) + "</tr>\n";
  }
  return text + "</table></div>\n";
}

std::string section(const RunReport& report, std::size_t number) {
  std::string text =
      fmt::format("<section id=\"run{}\">\n<h2>{}</h2>\n", number, escaped(report.name()));
  text += fmt::format("<p>{} · Ebbtide {} · torch {}</p>\n", escaped(forTerminal(report.path)),
                      escaped(report.version), escaped(report.torch_version));
  if (report.pass_through) {
    text +=
        "<p class=\"bad\">Something of ours failed: it trained as PyTorch alone does from "
        "then on.</p>\n";
  }
  const std::string picture = timelineSvg(report);
  text += picture.empty() ? "<p>No timeline: no step came to its end.</p>\n" : picture;
  if (!report.memory.dominating.empty()) {
    text += fmt::format("<p>Most memory: {}</p>\n", escaped(report.memory.dominating));
  }
  return text + "<div class=\"tables\">\n" + memoryTable(report) + planTable(report) +
         stepTable(report) + keptTable(report) + comparedTable(report) + "</div>\n</section>\n";
}

}  // namespace

std::string reportPage(const std::vector<RunReport>& reports) {
  const auto over = std::count_if(reports.begin(), reports.end(), [](const RunReport& report) {
    return report.budget.violations.value_or(0) > 0;
  });
  std::string text = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta "
      "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n<title>Ebbtide: {} rank{}</title>\n<style>{}</style>\n</head>\n<body>\n"
      "<h1>What training took</h1>\n<p>{} report{}; {}</p>\n",
      reports.size(), reports.size() == 1 ? "" : "s", kStyle, reports.size(),
      reports.size() == 1 ? "" : "s",
      over == 0 ? "no budget was exceeded"
                : fmt::format("<span class=\"bad\">{} went over the budget</span>", over));
  text += summaryTable(reports);
  for (std::size_t i = 0; i < reports.size(); ++i) text += section(reports[i], i);
  return text + "</body>\n</html>\n";
}

}  // namespace ebbtide::cli
