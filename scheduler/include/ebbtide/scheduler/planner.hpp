// Planner: data in, data out. No clock but the deadline, no global, no randomness but the seed.
// To add one: a file pair deriving from Planner and one line in registry.cpp.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/schedule.hpp"

namespace ebbtide::scheduler {

struct PlannerOptions {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::uint64_t seed = 0;
  std::map<std::string, std::string> named;  // planner-specific, e.g. {"strategy", "memory"}
};

struct PlanResult {
  bool feasible = false;  // peak_bytes <= budget in the real model
  Schedule schedule;      // legal even when infeasible: then the one with the smallest peak found
  Bytes peak_bytes = 0;   // as simulate() says
  Nanoseconds recompute_ns = 0;
  std::string planner;  // who found it (auto names the winner)
};

struct PlannerInfo {
  std::string name;
  std::string source;     // paper and section
  std::string guarantee;  // one sentence
};

class Planner {
 public:
  virtual ~Planner() = default;
  virtual PlannerInfo info() const = 0;
  // Throws std::invalid_argument for an unknown option. Infeasible is a result, not an error.
  virtual PlanResult plan(const Graph& graph, Bytes budget_bytes,
                          const PlannerOptions& options) const = 0;
};

// All registered planners, in the order shown to users. `auto` is the last.
const std::vector<std::unique_ptr<Planner>>& planners();
// Throws std::invalid_argument naming the known planners.
const Planner& planner(std::string_view name);

}  // namespace ebbtide::scheduler
