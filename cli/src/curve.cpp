#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "curve_svg.hpp"
#include "file_or_run.hpp"
#include "given_seconds.hpp"
#include "given_text.hpp"
#include "graph_input.hpp"
#include "live/rank_curve.hpp"
#include "op_time.hpp"
#include "planner_input.hpp"
#include "text_file.hpp"
#include "time_memory_curve.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

using namespace scheduler;

struct Arguments {
  GraphInput graph;
  PlannerInput planner;
  FileOrRun live;
  double wait_seconds = 30;
  std::size_t points = 12;
  std::string svg;
  bool json = false;
};

void printJson(const TimeMemoryCurve& curve, const std::string& asked) {
  nlohmann::json points = nlohmann::json::array();
  for (const CurvePoint& point : curve.points) {
    points.push_back(
        {{"budget_bytes", point.budget_bytes},
         {"feasible", point.feasible},
         {"peak_bytes", point.peak_bytes},
         {"seconds", seconds(point.duration_ns)},
         {"lower_bound_seconds", seconds(point.least_ns)},
         {"overhead_ratio", overheadRatio(point.duration_ns, curve.plain_ns)},
         {"recomputed_ops", point.recomputed_ops},
         {"planner", point.planner},
         {"note", point.note.empty() ? nlohmann::json() : nlohmann::json(point.note)}});
  }
  const nlohmann::json row = {{"base_peak_bytes", curve.plain_peak_bytes},
                              {"base_seconds", seconds(curve.plain_ns)},
                              {"lower_bound_bytes", curve.lower_bound_bytes},
                              {"asked", asked},
                              {"points", points}};
  fmt::print("{}\n", row.dump(1));
}

void printText(const TimeMemoryCurve& curve, const std::string& asked) {
  fmt::print("plain: peak {} bytes, {:.6f} s; no schedule has a peak under {} bytes\n",
             curve.plain_peak_bytes, seconds(curve.plain_ns), curve.lower_bound_bytes);
  fmt::print("{:>16} {:>16} {:>10} {:>12}  planner\n", "budget", "peak", "more time", "at least");
  for (const CurvePoint& point : curve.points) {
    fmt::print("{:>16} {:>16} {:>8.2f} % {:>10.2f} %  {}\n", point.budget_bytes, point.peak_bytes,
               100 * overheadRatio(point.duration_ns, curve.plain_ns),
               100 * overheadRatio(point.least_ns, curve.plain_ns),
               point.planner + (point.feasible ? "" : ": does not fit"));
  }
  const auto noted = std::find_if(curve.points.begin(), curve.points.end(),
                                  [](const CurvePoint& point) { return !point.note.empty(); });
  if (noted != curve.points.end())
    fmt::print("{} was asked, {} answers: {}\n", asked, noted->planner, noted->note);
}

int curveOfFile(const Arguments& arguments) {
  const Graph graph = readGraphOrHint(arguments.graph);
  const TimeMemoryCurve curve = timeMemoryCurve(graph, arguments.points, arguments.planner);
  if (!arguments.svg.empty()) {
    writeText(arguments.svg, toSvg(curve, "Time against memory: " + arguments.graph.path));
  }
  const std::string& asked = arguments.planner.planner;
  arguments.json ? printJson(curve, asked) : printText(curve, asked);
  return kFeasible;
}

int curve(const Arguments& arguments) {
  if (!arguments.graph.path.empty()) return curveOfFile(arguments);
  const std::chrono::milliseconds wait(std::llround(arguments.wait_seconds * 1000));
  return showCurves(arguments.live.job, wait, arguments.json);
}

}  // namespace

void addCurve(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  arguments->planner.deadline_seconds = 2;
  auto* verb = app.add_subcommand(
      "curve", "Time against memory: of a recorded step, or as a running job's ranks have it");
  auto* graph = arguments->graph.addTo(*verb);
  arguments->planner.addTo(*verb, "how long to look for a better plan, for each budget");
  verb->add_option("--points", arguments->points, "budgets from the lower bound to the plain peak")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  verb->add_flag("--json", arguments->json, "one JSON document on stdout");
  verb->add_option("--svg", arguments->svg, "draw it here")->check(givenText())->type_name("FILE");
  arguments->live.addTo(*verb, *graph, {"--json"});
  verb->add_option("--wait", arguments->wait_seconds,
                   "how long ranks may take to make their curves, which they do when asked")
      ->check(givenSeconds(0, 3600))
      ->excludes(graph)
      ->capture_default_str()
      ->type_name("SECONDS")
      ->group(FileOrRun::kOfRun);
  verb->callback([arguments, &exit_code] { exit_code = curve(*arguments); });
}

}  // namespace ebbtide::cli
