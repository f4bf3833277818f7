// Planner: data in, data out. Its only clocks are the deadline and the pace, its only randomness is
// the seed. It has no globals, and asks the outside only whether anybody still waits.
// To add one: a file pair in a folder of src/planners, deriving from Planner, and one line in
// src/registry.cpp.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/schedule.hpp"
#include "ebbtide/scheduler/search_pace.hpp"

namespace ebbtide::scheduler {

// Infeasible budgets are not errors, and a budget of 0 asks for the smallest peak that the planner
// can reach.
struct PlannerOptions {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::uint64_t seed = 0;
  unsigned threads = 1;
  std::map<std::string, std::string> named;  // planner-specific, e.g. {"strategy", "memory"}
  // Once it is true, from any thread, the search ends as if the deadline were past.
  const std::atomic<bool>* cancelled = nullptr;
  // Beside the deadline, or in its place. It may make the calling thread wait, so no other thread
  // searches, whatever `threads` is. The planners that auto consists of obey it.
  SearchPace* pace = nullptr;
};

struct PlanResult {
  bool feasible = false;  // peak_bytes <= budget
  bool optimal = false;   // proven: no schedule of the graph within the budget takes less time
  Schedule schedule;      // legal even when infeasible: then the one with the smallest peak found
  Bytes peak_bytes = 0;   // as simulate() says
  Nanoseconds recompute_ns = 0;
  std::string planner = {};            // who found it (auto names the winner)
  Nanoseconds recompute_bound_ns = 0;  // no schedule within the budget replays for less
  std::string note = {};               // where it is not who was asked, nor auto's: why
};

struct PlannerOption {
  std::string name;
  std::string values;  // "time|memory", "1 to 64"; the default first or in brackets
  std::string meaning;
};

struct PlannerInfo {
  std::string name;
  std::string source;                       // paper and section
  std::string guarantee;                    // one sentence
  std::vector<PlannerOption> options = {};  // all that PlannerOptions::named may hold
};

class Planner {
 public:
  virtual ~Planner() = default;
  virtual PlannerInfo info() const = 0;
  // Throws std::invalid_argument for an option that info() does not list, or a value that it does
  // not allow, and where a planner made for one kind of graph (a chain) is given another.
  virtual PlanResult plan(const Graph& graph, Bytes budget_bytes,
                          const PlannerOptions& options) const = 0;
};

// All registered planners, in the order shown to users. `auto` is the last.
const std::vector<std::unique_ptr<Planner>>& planners();
// Throws std::invalid_argument naming the known planners.
const Planner& planner(std::string_view name);

}  // namespace ebbtide::scheduler
