// PlanSearch: StepSearch for a running training, which also runs replays while messages are under
// way. Torch-free.
//
// Thread rule: it keeps nothing between two calls.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "ebbtide/scheduler/step_search.hpp"

namespace ebbtide::plugin {

using Planned = scheduler::PlannedStep;

class PlanSearch {
 public:
  struct Options {
    std::string planner = "auto";
    bool replay_ahead = true;
    std::chrono::milliseconds planning_time =
        std::chrono::milliseconds(2500);               // a search's longest
    std::optional<std::int64_t> work = {};             // as StepSearch's
    const std::atomic<bool>* cancelled = nullptr;      // true: nobody waits for the plan any more
    const scheduler::Planner* in_its_place = nullptr;  // as StepSearch::Options has it
    scheduler::SearchPace* pace = nullptr;             // likewise
  };
  using Tell = scheduler::StepSearch::Tell;

  PlanSearch(const Options& options, const Tell& debug);

  // As StepSearch has them, these three.
  Planned best(const scheduler::Trace& trace, const scheduler::TraceGraph& plain,
               scheduler::Bytes cap) const {
    return search_.best(trace, plain, cap);
  }
  std::optional<Planned> first(const scheduler::Trace& trace, const scheduler::TraceGraph& plain,
                               scheduler::Bytes cap) const {
    return search_.first(trace, plain, cap);
  }
  static std::optional<Planned> again(const scheduler::Trace& trace,
                                      const scheduler::TraceGraph& plain, scheduler::Bytes cap,
                                      const Planned& before) {
    return scheduler::StepSearch::again(trace, plain, cap, before);
  }
  // Where the rank waits for messages: what is left of the cap holds what is replayed meanwhile.
  void replayAhead(const scheduler::Trace& trace, Planned& planned, scheduler::Bytes cap) const;

 private:
  scheduler::StepSearch search_;
  bool replay_ahead_;
  Tell debug_;
};

}  // namespace ebbtide::plugin
