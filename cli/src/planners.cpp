#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "ebbtide/scheduler/planner.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

using namespace scheduler;

void printText() {
  for (const auto& planner : planners()) {
    const PlannerInfo info = planner->info();
    fmt::print("{:<24} {}\n{:<24} {}\n", info.name, info.source, "", info.guarantee);
    std::size_t width = 0;
    for (const PlannerOption& option : info.options) width = std::max(width, option.name.size());
    for (const PlannerOption& option : info.options) {
      fmt::print("{:<24}   {:<{}}  {}  {}\n", "", option.name, width, option.values,
                 option.meaning);
    }
  }
}

void printJson() {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& planner : planners()) {
    const PlannerInfo info = planner->info();
    nlohmann::json options = nlohmann::json::array();
    for (const PlannerOption& option : info.options) {
      options.push_back(
          {{"name", option.name}, {"values", option.values}, {"meaning", option.meaning}});
    }
    rows.push_back({{"name", info.name},
                    {"source", info.source},
                    {"guarantee", info.guarantee},
                    {"options", options}});
  }
  fmt::print("{}\n", rows.dump(1));
}

}  // namespace

void addPlanners(CLI::App& app, int&) {
  auto* verb = app.add_subcommand(
      "planners", "List the planners: their papers, what they guarantee, their options");
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "one JSON document on stdout");
  verb->callback([json] { *json ? printJson() : printText(); });
}

}  // namespace ebbtide::cli
