#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "ebbtide/scheduler/byte_size.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "given_text.hpp"
#include "graph_input.hpp"
#include "op_time.hpp"
#include "text_file.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

using namespace scheduler;

struct Arguments {
  GraphInput graph;
  std::string schedule, budget;
  bool json = false;
};

Schedule readSchedule(const std::string& path) {
  const std::string text = readText(path);
  try {
    return scheduleFromJson(text);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(path + ": " + error.what());
  }
}

void print(const Arguments& arguments, const Simulation& plain, const Simulation& result,
           std::optional<Bytes> budget, bool feasible) {
  const double overhead = overheadRatio(result.duration_ns, plain.duration_ns);
  if (arguments.json) {
    nlohmann::json row = {{"feasible", feasible},
                          {"peak_bytes", result.peak_bytes},
                          {"seconds", seconds(result.duration_ns)},
                          {"base_seconds", seconds(plain.duration_ns)},
                          {"overhead_ratio", overhead},
                          {"recomputed_ops", result.recomputed_ops}};
    if (budget) row["budget_bytes"] = *budget;
    fmt::print("{}\n", row.dump(1));
    return;
  }
  fmt::print(
      "legal: peak {} bytes of {} plain, {} ops recomputed in {:.6f} s, {:.2f} % more op "
      "time\n",
      result.peak_bytes, plain.peak_bytes, result.recomputed_ops, seconds(result.recompute_ns),
      100 * overhead);
  if (!feasible) fmt::print("over the budget of {} bytes\n", *budget);
}

int check(const Arguments& arguments) {
  const Graph graph = arguments.graph.read();
  const Schedule schedule = readSchedule(arguments.schedule);
  if (const auto problem = validate(graph, schedule)) {
    throw std::invalid_argument(arguments.schedule + ": not legal: " + *problem);
  }
  const Simulation plain = simulate(graph, keepEverything(graph));
  const Simulation result = simulate(graph, schedule);
  std::optional<Bytes> budget;
  if (!arguments.budget.empty()) {
    budget = parseSize("--budget", arguments.budget, plain.peak_bytes);
  }
  const bool feasible = !budget || result.peak_bytes <= *budget;
  print(arguments, plain, result, budget, feasible);
  return feasible ? kFeasible : kInfeasible;
}

}  // namespace

void addCheck(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand("check", "Validate and simulate a schedule");
  arguments->graph.addTo(*verb);
  verb->add_option("SCHEDULE", arguments->schedule, "as `ebbtide plan --out` writes it")
      ->required()
      ->type_name("FILE");
  verb->add_option("--budget", arguments->budget, "as in `ebbtide plan`")
      ->check(givenText())
      ->type_name("SIZE");
  verb->add_flag("--json", arguments->json, "one JSON document on stdout");
  verb->callback([arguments, &exit_code] { exit_code = check(*arguments); });
}

}  // namespace ebbtide::cli
