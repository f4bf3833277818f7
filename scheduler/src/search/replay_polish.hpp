// Polishing a schedule by annealing over its replays (replay_search.hpp), on several threads.
#pragma once

#include <limits>

#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

struct PolishEffort {
  static constexpr std::int64_t kUntilDeadline = std::numeric_limits<std::int64_t>::max();

  std::int64_t moves = 0;     // of each thread
  int intervals = 6;          // copies of a value, the first one included
  Nanoseconds enough_ns = 0;  // it ends when no more than this is replayed within the budget
  // And when two rounds between them gain less than this share of the step's time or, as long as
  // the budget is not met, of the peak.
  double least_gain = 0;
};

// The best schedule found from `start` on, as the timeline counts (of graphs that are kept it
// counts what saved tensors hold under `start`); never worse than it. One search a thread, each
// with a seed of its own: the result does not depend on which ends first.
Schedule polish(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options,
                const Schedule& start, const PolishEffort& effort);

}  // namespace ebbtide::scheduler
