// The arguments that say how to plan: --planner, --option, --deadline, --seed (and --threads, which
// each verb uses in its own way).
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::cli {

struct PlannerInput {
  std::string planner = "auto";
  std::vector<std::string> named;  // "k=v"
  double deadline_seconds = 10;
  std::uint64_t seed = 0;
  unsigned threads = 1;

  void addTo(CLI::App& verb, const std::string& deadline_meaning);
  // The deadline counts from now. Throws std::invalid_argument.
  scheduler::PlannerOptions options() const;
};

}  // namespace ebbtide::cli
