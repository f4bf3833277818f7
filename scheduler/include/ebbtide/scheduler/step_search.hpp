// StepSearch: the schedule of a recorded step that fits a cap at the least cost: what is copied and
// what is computed again. The same search plans a training and predicts what a budget would cost.
//
// Thread rule: it keeps nothing between two calls.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

struct PlannedStep {
  TraceGraph step;  // with copies
  PlanResult result;
  Simulation simulated;

  bool betterThan(const PlannedStep& other) const;
  // Predicted: what replays and copies add to the recorded step's time, as a share of it.
  double overheadRatio(const Trace& trace) const;
};

class StepSearch {
 public:
  struct Options {
    std::string planner = "auto";
    std::chrono::milliseconds planning_time = std::chrono::milliseconds(2500);  // a plan's longest
    // The planner's option of that name, which it has to have: by it alone a plan is the same on
    // any machine. None: what the planner does by itself.
    std::optional<std::int64_t> work = {};
    const std::atomic<bool>* cancelled = nullptr;  // true: nobody waits for the plan any more
    const Planner* in_its_place = nullptr;         // searches, and outlives this; nullptr: it does
    SearchPace* pace = nullptr;  // of best(): measures planning_time; nullptr: the clock does
  };
  using Tell = std::function<void(const std::string& text)>;

  StepSearch(Options options, Tell debug)
      : options_(std::move(options)), debug_(std::move(debug)) {}

  // Of a search that is cancelled whatever it has by then, legal all the same.
  // `plain`: the trace's graph, without copies. Throws std::runtime_error where a planner's
  // schedule is not legal, std::invalid_argument where a planner has no `work`.
  PlannedStep best(const Trace& trace, const TraceGraph& plain, Bytes cap) const;
  // One that fits, without a search: best() is hardly ever worse. Nothing: none was found so, or
  // another planner than auto was asked, whose plans alone are wanted. Nor one that makes a step
  // 1.6 times as long, nor one that takes longer to find than a step, and than 75 us an op.
  std::optional<PlannedStep> first(const Trace& trace, const TraceGraph& plain, Bytes cap) const;
  // What a plan of an earlier step of the same ops comes to in this one; of its graph the copies
  // are looked at alone. Nothing: it does not fit or is too slow, or other values are copied now.
  static std::optional<PlannedStep> again(const Trace& trace, const TraceGraph& plain, Bytes cap,
                                          const PlannedStep& before);

 private:
  std::chrono::nanoseconds firstTime(const Trace& trace) const;
  PlannerOptions plannerOptions(std::chrono::nanoseconds time) const;
  PlanResult planWithin(const Graph& graph, Bytes cap) const;

  Options options_;
  Tell debug_;
};

}  // namespace ebbtide::scheduler
