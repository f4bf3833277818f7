// The arguments that say how to plan: --planner, --option and those of SearchLimits.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "ebbtide/scheduler/planner.hpp"
#include "search_limits.hpp"

namespace ebbtide::cli {

struct PlannerInput : SearchLimits {
  std::string planner = "auto";
  std::vector<std::string> named;  // "k=v"

  void addTo(CLI::App& verb, const std::string& deadline_meaning);
  // The deadline counts from now. Throws std::invalid_argument.
  scheduler::PlannerOptions options() const;
};

}  // namespace ebbtide::cli
