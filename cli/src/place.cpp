#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "ebbtide/scheduler/byte_size.hpp"
#include "ebbtide/scheduler/placement_csv.hpp"
#include "ebbtide/scheduler/placement_validator.hpp"
#include "given_text.hpp"
#include "placement_svg.hpp"
#include "search_limits.hpp"
#include "text_file.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

using namespace scheduler;

struct Arguments {
  std::string path, capacity, alignment, out, svg;
  SearchLimits limits;
  bool json = false;
};

// A placement and what its judge says of it.
struct Judged {
  Placement placement;
  std::optional<Bytes> capacity_bytes;
  double seconds = 0;

  bool feasible() const { return !capacity_bytes || placement.height_bytes <= *capacity_bytes; }
  double overLoad() const {
    return placement.load_bytes > 0 ? static_cast<double>(placement.height_bytes) /
                                          static_cast<double>(placement.load_bytes)
                                    : 1;
  }
};

PlacementTable readTable(const Arguments& arguments) {
  const std::string text = readText(arguments.path);
  PlacementTable table;
  try {
    table = placementFromCsv(text);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(arguments.path + ": " + error.what());
  }
  if (!arguments.alignment.empty()) {
    table.problem.alignment_bytes = parseSize("--alignment", arguments.alignment, 0);
  }
  return table;
}

Judged placeAndJudge(const PlacementProblem& problem, const Arguments& arguments) {
  Judged judged;
  PlacementOptions options;
  if (!arguments.capacity.empty()) {
    judged.capacity_bytes = parseSize("--capacity", arguments.capacity, placementLoad(problem));
    options.capacity_bytes = *judged.capacity_bytes;
  }
  options.deadline = arguments.limits.deadline();
  options.threads = arguments.limits.threads;
  options.seed = arguments.limits.seed;
  const auto start = std::chrono::steady_clock::now();
  judged.placement = place(problem, options);
  judged.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (const auto fault = validate(problem, judged.placement)) {
    throw std::logic_error("the placement by " + judged.placement.method +
                           " is not legal: " + *fault);
  }
  return judged;
}

void printJson(const Judged& judged, std::size_t buffers) {
  const Placement& placement = judged.placement;
  nlohmann::json row = {{"feasible", judged.feasible()},
                        {"optimal", placement.optimal},
                        {"buffers", buffers},
                        {"height_bytes", placement.height_bytes},
                        {"load_bytes", placement.load_bytes},
                        {"height_over_load", judged.overLoad()},
                        {"method", placement.method},
                        {"seconds", judged.seconds}};
  if (judged.capacity_bytes) row["capacity_bytes"] = *judged.capacity_bytes;
  fmt::print("{}\n", row.dump(1));
}

void printText(const Judged& judged, std::size_t buffers) {
  const Placement& placement = judged.placement;
  const char* const proven = placement.optimal ? " (optimal)" : "";
  const std::string verdict = judged.capacity_bytes && judged.feasible()
                                  ? fmt::format("feasible{}, height", proven)
                                  : fmt::format("{}the smallest height found{} is",
                                                judged.feasible() ? "" : "infeasible, ", proven);
  fmt::print("{}: {} {} ({}LOAD {}, ratio {:.4f}), {} buffers, {:.2f} s\n", placement.method,
             verdict, placement.height_bytes,
             judged.capacity_bytes ? fmt::format("capacity {}, ", *judged.capacity_bytes) : "",
             placement.load_bytes, judged.overLoad(), buffers, judged.seconds);
}

int run(const Arguments& arguments) {
  const PlacementTable table = readTable(arguments);
  const Judged judged = placeAndJudge(table.problem, arguments);
  if (!arguments.out.empty()) writeText(arguments.out, toCsv(table, judged.placement.offsets));
  if (!arguments.svg.empty()) {
    writeText(arguments.svg, toSvg(table, judged.placement, judged.capacity_bytes,
                                   "Placement: " + arguments.path));
  }
  const std::size_t buffers = table.problem.buffers.size();
  arguments.json ? printJson(judged, buffers) : printText(judged, buffers);
  return judged.feasible() ? kFeasible : kInfeasible;
}

}  // namespace

void addPlace(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand("place", "Offsets for buffers of known size and lifetime");
  verb->add_option("FILE", arguments->path, "CSV with the columns id, lower, upper and size")
      ->required()
      ->type_name("FILE");
  verb->add_option("--capacity", arguments->capacity,
                   "stop when a height of SIZE is found (default: LOAD, the lower bound)")
      ->check(givenText())
      ->type_name("SIZE");
  verb->add_option("--alignment", arguments->alignment,
                   "of the offsets; sizes are rounded up to it")
      ->check(givenText())
      ->type_name("SIZE");
  arguments->limits.addTo(*verb, "how long to look for a better placement");
  verb->add_option("--out", arguments->out, "write the table with a column offset here")
      ->check(givenText())
      ->type_name("FILE");
  verb->add_flag("--json", arguments->json, "one JSON document on stdout");
  verb->add_option("--svg", arguments->svg, "draw it here")->check(givenText())->type_name("FILE");
  verb->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace ebbtide::cli
