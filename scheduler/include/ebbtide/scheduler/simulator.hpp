// Simulator: what a legal schedule costs in the real model. Shares no code with planners, nor do
// the bounds on what planners can reach.
#pragma once

#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/schedule.hpp"

namespace ebbtide::scheduler {

struct Simulation {
  Bytes peak_bytes = 0;
  std::size_t peak_step = 0;        // index into Schedule::steps
  OpId peak_op = kNone;             // program position (last first-run op) at the peak
  Nanoseconds duration_ns = 0;      // all runs
  Nanoseconds recompute_ns = 0;     // replays only
  std::int64_t recomputed_ops = 0;  // replays
  // Per first run, in the order in which they come: the largest live bytes from its replays to its
  // end.
  std::vector<Bytes> live_bytes;
  std::vector<Bytes> run_bytes;  // per first run: of these the bytes while it runs itself
};

class SimulationWatcher {
 public:
  virtual ~SimulationWatcher() = default;
  // Bytes of a value become live or end. The graph inputs of the start are told first.
  virtual void onLive(ValueId value, Bytes change) = 0;
  // A run or a fetch is at its most, `live_bytes` with what is fixed; `at_ns`: when it ends, of all
  // runs so far.
  virtual void onLook(Nanoseconds at_ns, Bytes live_bytes) = 0;
};

// Rules, per step:
//  run op, first time: outputs become live; bytes while it runs = fixed_bytes + live values. An
//    output with previous_epoch takes that value's bytes over (the old value dies, nothing is
//    added).
//  run op again: bytes while it runs = the *next* first-run op's fixed_at_start + live values +
//    outputs + workspace. An output with previous_epoch whose old value is dropped in the directly
//    following steps (before any run) takes its bytes over, else both count. Outputs never read or
//    dropped later die at once. A copy of an output, live or on the host, stays; the new one dies
//    after the run.
//  Graph::lazy_outputs: outputs dropped in the directly following steps, and outputs of a replay
//    that have a copy already or are never read or dropped, take no bytes.
//  Graph::any_order: an op's first run is the first time it comes.
//  drop value: the schedule's copy dies, unless it is the first copy and last_reference is not
//    past, or saved_last is not and the schedule never runs its producer again. Nor is it past for
//    what a replay of the schedule reads while what that makes is saved.
//  After first-run op i: first copies with both <= i that the schedule has dropped die.
//  Values never dropped live until the last step. Pinned values count zero.
// Precondition: validate() accepts the schedule. A watcher is told all that the peak is made of.
Simulation simulate(const Graph& graph, const Schedule& schedule,
                    SimulationWatcher* watcher = nullptr);

// The schedule that keeps everything a backward event reads, as PyTorch does: each value is dropped
// right after the last op that reads it.
Schedule keepEverything(const Graph& graph);

// No schedule without offload can have a lower peak: for each op fixed_bytes + its inputs and
// outputs + values the program itself holds then + values that cannot be recomputed and are read
// later.
Bytes peakLowerBound(const Graph& graph);

// No schedule without offload whose peak is at most `budget_bytes` can replay for less time: for
// each op the values that are live then and read later are too many by some bytes, and each one
// that is dropped takes a replay of its producer after the op. Rises as the budget falls.
Nanoseconds recomputeLowerBound(const Graph& graph, Bytes budget_bytes);

}  // namespace ebbtide::scheduler
