#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/byte_size.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "file_or_run.hpp"
#include "given_text.hpp"
#include "graph_input.hpp"
#include "least_duration.hpp"
#include "live/rank_plan.hpp"
#include "op_time.hpp"
#include "planner_input.hpp"
#include "text_file.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

using namespace scheduler;

struct Arguments {
  GraphInput graph;
  PlannerInput planner;
  FileOrRun live;
  std::string budget, minimize, out;
  bool json = false;
};

// A plan and what the judges say of it.
struct Judged {
  PlanResult result;
  Simulation plain, planned;
  Bytes budget_bytes = 0;
  Bytes lower_bound_bytes = 0;
  Nanoseconds least_ns = 0;  // no schedule within the budget takes less in all
  bool feasible = false;
  bool optimal = false;
  double plan_seconds = 0;

  double leastRatio() const { return cli::overheadRatio(least_ns, plain.duration_ns); }
  double overheadRatio() const {
    return cli::overheadRatio(planned.duration_ns, plain.duration_ns);
  }
};

Judged planAndJudge(const Graph& graph, const Arguments& arguments) {
  Judged judged;
  judged.plain = simulate(graph, keepEverything(graph));
  const bool minimize = !arguments.minimize.empty();
  judged.budget_bytes =
      minimize ? 0 : parseSize("--budget", arguments.budget, judged.plain.peak_bytes);
  const Planner& chosen = planner(arguments.planner.planner);
  const auto start = std::chrono::steady_clock::now();
  judged.result = chosen.plan(graph, judged.budget_bytes, arguments.planner.options());
  judged.plan_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (const auto problem = validate(graph, judged.result.schedule)) {
    throw std::logic_error("the schedule of " + judged.result.planner +
                           " is not legal: " + *problem);
  }
  judged.planned = simulate(graph, judged.result.schedule);
  judged.lower_bound_bytes = peakLowerBound(graph);
  // With the smallest peak as the goal there is no budget to miss.
  judged.feasible = minimize || judged.planned.peak_bytes <= judged.budget_bytes;
  judged.least_ns = judged.plain.duration_ns;
  if (!minimize && !judged.result.optimal) {
    judged.least_ns = leastDuration(graph, judged.budget_bytes, judged.plain.duration_ns,
                                    arguments.planner.options());
    judged.least_ns =
        std::max(judged.least_ns, judged.plain.duration_ns + judged.result.recompute_bound_ns);
  }
  if (judged.feasible && judged.result.optimal) judged.least_ns = judged.planned.duration_ns;
  judged.optimal = minimize ? judged.planned.peak_bytes == judged.lower_bound_bytes
                            : judged.feasible && judged.planned.duration_ns <= judged.least_ns;
  return judged;
}

void printJson(const Judged& judged, const std::string& asked) {
  const std::string& note = judged.result.note;
  const nlohmann::json row = {{"planner", judged.result.planner},
                              {"asked", asked},
                              {"note", note.empty() ? nlohmann::json() : nlohmann::json(note)},
                              {"feasible", judged.feasible},
                              {"optimal", judged.optimal},
                              {"budget_bytes", judged.budget_bytes},
                              {"peak_bytes", judged.planned.peak_bytes},
                              {"lower_bound_bytes", judged.lower_bound_bytes},
                              {"seconds", seconds(judged.planned.duration_ns)},
                              {"base_seconds", seconds(judged.plain.duration_ns)},
                              {"overhead_ratio", judged.overheadRatio()},
                              {"recomputed_ops", judged.planned.recomputed_ops},
                              {"plan_seconds", judged.plan_seconds}};
  fmt::print("{}\n", row.dump(1));
}

// By op name, the dearest first.
void printRecomputedOps(const Graph& graph, const Schedule& schedule) {
  struct Sum {
    std::int64_t replays = 0;
    Nanoseconds ns = 0;
  };
  std::vector<bool> ran(graph.ops.size(), false);
  std::map<std::string, Sum> sums;
  for (const Step& step : schedule.steps) {
    if (step.kind != Step::Kind::kRun) continue;
    if (ran[step.id]) {
      Sum& sum = sums[graph.ops[step.id].name];
      ++sum.replays;
      sum.ns += graph.ops[step.id].duration_ns;
    }
    ran[step.id] = true;
  }
  std::vector<std::pair<std::string, Sum>> order(sums.begin(), sums.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  for (const auto& [name, sum] : order) {
    fmt::print("  {:>10.3f} ms {:>6} x {}\n", static_cast<double>(sum.ns) * 1e-6, sum.replays,
               name);
  }
}

// What comes before the peak's bytes.
std::string verdictOf(const Judged& judged, bool minimized) {
  const char* const proven = judged.optimal ? " (optimal)" : "";
  if (judged.feasible && !minimized) return fmt::format("feasible{}, peak", proven);
  return fmt::format("{}the smallest peak found{} is", judged.feasible ? "" : "infeasible, ",
                     proven);
}

void printText(const Graph& graph, const Judged& judged, const std::string& asked) {
  const bool minimized = judged.budget_bytes == 0;
  if (!judged.result.note.empty())
    fmt::print("{} was asked, {} answers: {}\n", asked, judged.result.planner, judged.result.note);
  fmt::print(
      "{}: {} {} of {} plain ({}lower bound {}), {:.2f} % more op time{}, {} ops recomputed, "
      "{:.2f} s\n",
      judged.result.planner, verdictOf(judged, minimized), judged.planned.peak_bytes,
      judged.plain.peak_bytes, minimized ? "" : fmt::format("budget {}, ", judged.budget_bytes),
      judged.lower_bound_bytes, 100 * judged.overheadRatio(),
      minimized || judged.optimal ? ""
                                  : fmt::format(" (at least {:.2f})", 100 * judged.leastRatio()),
      judged.planned.recomputed_ops, judged.plan_seconds);
  printRecomputedOps(graph, judged.result.schedule);
}

int planFile(const Arguments& arguments) {
  if (arguments.budget.empty() && arguments.minimize.empty()) {
    throw std::invalid_argument("with GRAPH --budget SIZE or --minimize peak is required");
  }
  const Graph graph = readGraphOrHint(arguments.graph);
  const Judged judged = planAndJudge(graph, arguments);
  if (!arguments.out.empty()) writeText(arguments.out, toJson(judged.result.schedule) + '\n');
  const std::string& asked = arguments.planner.planner;
  arguments.json ? printJson(judged, asked) : printText(graph, judged, asked);
  return judged.feasible ? kFeasible : kInfeasible;
}

int plan(const Arguments& arguments) {
  return arguments.graph.path.empty() ? showPlans(arguments.live.job, arguments.json)
                                      : planFile(arguments);
}

}  // namespace

void addPlan(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand(
      "plan", "Plan a recorded step under a budget, or show the plans that a running job has");
  auto* graph = arguments->graph.addTo(*verb);
  auto* budget =
      verb->add_option("--budget", arguments->budget,
                       "30GiB, 24576MiB, 80% of the plain peak in the same model, or bytes")
          ->check(givenText())
          ->type_name("SIZE");
  verb->add_option("--minimize", arguments->minimize,
                   "in place of --budget; peak: the smallest one, whatever the time")
      ->check(CLI::IsMember({"peak"}))
      ->excludes(budget);
  arguments->planner.addTo(*verb, "how long to look for a better plan");
  verb->add_option("--out", arguments->out, "write the schedule here")
      ->check(givenText())
      ->type_name("FILE");
  verb->add_flag("--json", arguments->json, "one JSON document on stdout");
  arguments->live.addTo(*verb, *graph, {"--json"});
  verb->callback([arguments, &exit_code] { exit_code = plan(*arguments); });
}

}  // namespace ebbtide::cli
