// ebbtide: plans on recorded traces, without torch. Exit codes: 0 feasible, 2 bad input, 3
// infeasible.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/byte_size.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "ebbtide/scheduler/validator.hpp"

namespace {

using namespace ebbtide::scheduler;

constexpr int kBadInput = 2;
constexpr int kInfeasible = 3;

std::string readFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw std::invalid_argument("cannot read " + path);
  return text.str();
}

int listPlanners(bool json) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& planner : planners()) {
    const PlannerInfo info = planner->info();
    rows.push_back({{"name", info.name}, {"source", info.source}, {"guarantee", info.guarantee}});
    if (!json) fmt::print("{:<24} {}\n{:<24} {}\n", info.name, info.source, "", info.guarantee);
  }
  if (json) std::cout << rows.dump(1) << '\n';
  return 0;
}

struct PlanArguments {
  std::string trace, planner = "auto", budget, out;
  double deadline_seconds = 10;
  std::uint64_t seed = 0;
  bool json = false;
};

// By op name, the dearest first.
void printRecomputedOps(const Graph& graph, const Schedule& schedule) {
  struct Sum {
    int replays = 0;
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

int plan(const PlanArguments& arguments) {
  const TraceGraph graph = buildGraph(traceFromJson(readFile(arguments.trace)));
  const Simulation plain = simulate(graph.graph, keepEverything(graph.graph));
  const Bytes budget =
      parseSize("--budget", arguments.budget, static_cast<double>(plain.peak_bytes));
  PlannerOptions options;
  options.seed = arguments.seed;
  const auto start = std::chrono::steady_clock::now();
  options.deadline =
      start + std::chrono::milliseconds(static_cast<long>(arguments.deadline_seconds * 1000));
  const PlanResult result = planner(arguments.planner).plan(graph.graph, budget, options);
  const double plan_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (const auto problem = validate(graph.graph, result.schedule))
    throw std::logic_error("the schedule is not legal: " + *problem);
  const Simulation planned = simulate(graph.graph, result.schedule);
  const double base = static_cast<double>(plain.duration_ns) * 1e-9;
  const double seconds = static_cast<double>(planned.duration_ns) * 1e-9;
  const nlohmann::json row = {{"planner", result.planner},
                              {"feasible", result.feasible},
                              {"optimal", false},
                              {"budget_bytes", budget},
                              {"peak_bytes", planned.peak_bytes},
                              {"lower_bound_bytes", peakLowerBound(graph.graph)},
                              {"seconds", seconds},
                              {"base_seconds", base},
                              {"overhead_ratio", base > 0 ? seconds / base - 1 : 0.0},
                              {"recomputed_ops", planned.recomputed_ops},
                              {"plan_seconds", plan_seconds}};
  if (arguments.json) {
    std::cout << row.dump(1) << '\n';
  } else {
    fmt::print(
        "{}: {}, peak {} of {} plain (budget {}, lower bound {}), {:.2f} % more op time, {} ops "
        "recomputed, {:.2f} s\n",
        result.planner, result.feasible ? "feasible" : "infeasible, smallest peak found",
        planned.peak_bytes, plain.peak_bytes, budget, peakLowerBound(graph.graph),
        base > 0 ? 100 * (seconds / base - 1) : 0.0, planned.recomputed_ops, plan_seconds);
    printRecomputedOps(graph.graph, result.schedule);
  }
  if (!arguments.out.empty()) {
    std::ofstream file(arguments.out);
    file << toJson(result.schedule) << '\n';
    if (!file) throw std::invalid_argument("cannot write " + arguments.out);
  }
  return result.feasible ? 0 : kInfeasible;
}

int check(const std::string& trace, const std::string& schedule_path) {
  const TraceGraph graph = buildGraph(traceFromJson(readFile(trace)));
  const Schedule schedule = scheduleFromJson(readFile(schedule_path));
  if (const auto problem = validate(graph.graph, schedule)) {
    std::cerr << "not legal: " << *problem << '\n';
    return kBadInput;
  }
  const Simulation result = simulate(graph.graph, schedule);
  fmt::print("legal: peak {} bytes, {} ops recomputed in {:.6f} s\n", result.peak_bytes,
             result.recomputed_ops, static_cast<double>(result.recompute_ns) * 1e-9);
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app{"Rematerialization plans for recorded training steps"};
  app.set_version_flag("--version", EBBTIDE_VERSION);
  app.require_subcommand(1);
  bool json = false;
  auto* list =
      app.add_subcommand("planners", "List the planners, their papers and what they guarantee");
  list->add_flag("--json", json);
  PlanArguments arguments;
  auto* planning = app.add_subcommand(
      "plan", "Plan a recorded step (EBBTIDE_TRACE_DIR writes one) under a budget");
  planning->add_option("TRACE", arguments.trace)->required();
  planning
      ->add_option("--budget", arguments.budget, "30GiB, 24576MiB, 80% of the plain peak, or bytes")
      ->required();
  planning->add_option("--planner", arguments.planner, "auto, or a name from `ebbtide planners`");
  planning->add_option("--deadline", arguments.deadline_seconds, "seconds")
      ->check(CLI::Range(0.0, 1e6));
  planning->add_option("--seed", arguments.seed);
  planning->add_option("--out", arguments.out, "write the schedule here");
  planning->add_flag("--json", arguments.json);
  std::string trace, schedule;
  auto* checking = app.add_subcommand("check", "Validate and simulate a schedule");
  checking->add_option("TRACE", trace)->required();
  checking->add_option("SCHEDULE", schedule)->required();
  try {
    app.parse(argc, argv);
    if (*list) return listPlanners(json);
    if (*planning) return plan(arguments);
    return check(trace, schedule);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : kBadInput;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ebbtide: %s\n", error.what());
  }
  return kBadInput;
}
