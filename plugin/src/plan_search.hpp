// PlanSearch: the schedule of a recorded step that fits a cap at the least cost: what is copied,
// what is computed again, and what of that while messages are under way. Torch-free.
//
// Thread rule: it keeps nothing between two calls.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::plugin {

struct Planned {
  scheduler::TraceGraph step;  // with copies
  scheduler::PlanResult result;
  scheduler::Simulation simulated;

  bool betterThan(const Planned& other) const;
  // Predicted: what replays and copies add to the recorded step's time, as a share of it.
  double overheadRatio(const scheduler::Trace& trace) const;
};

class PlanSearch {
 public:
  struct Options {
    std::string planner = "auto";
    bool replay_ahead = true;
    std::chrono::milliseconds planning_time = std::chrono::milliseconds(2500);  // a plan's longest
    const std::atomic<bool>* cancelled = nullptr;  // true: nobody waits for the plan any more
  };
  using Tell = std::function<void(const std::string& text)>;

  PlanSearch(Options options, Tell debug)
      : options_(std::move(options)), debug_(std::move(debug)) {}

  // Of a search that is cancelled whatever it has by then, legal all the same.
  // `plain`: the trace's graph, without copies. Throws std::runtime_error where a planner's
  // schedule is not legal.
  Planned best(const scheduler::Trace& trace, const scheduler::TraceGraph& plain,
               scheduler::Bytes cap) const;
  // Where the rank waits for messages: what is left of the cap holds what is replayed meanwhile.
  void replayAhead(const scheduler::Trace& trace, Planned& planned, scheduler::Bytes cap) const;

 private:
  scheduler::PlanResult planWithin(const scheduler::Graph& graph, scheduler::Bytes cap) const;

  Options options_;
  Tell debug_;
};

}  // namespace ebbtide::plugin
