// StageLevels: the runs of a schedule in stages and the live bytes during each of them.
//
//   stage:     2     3        4              5          6
//   runs:      [2]   [3]      [4]            0 1 [5]    [6]        [t]: first run
//   level:     the tree's share of each whole stage, and each run's own
//
// Bytes over a range of runs go to the tree for the stages between its ends, to single runs for the
// rest: O(log stages + runs of two stages).
#pragma once

#include <cstdint>
#include <vector>

#include "base/peak_tree.hpp"
#include "ebbtide/scheduler/graph.hpp"
#include "model/run_key.hpp"

namespace ebbtide::scheduler {

class StageLevels {
 public:
  struct Range {  // of runs: after `from`, up to `to`
    RunKey from, to;
    bool with_to = true;
  };

  // First runs alone, with their fixed bytes. The graph must outlive it.
  explicit StageLevels(const Graph& graph);

  Bytes peak() const { return tree_.max(); }
  const PeakTree& stages() const { return tree_; }
  RunKey peakRun(OpId stage) const;  // the run with most live bytes in a stage
  const std::vector<RunKey>& replays() const { return replays_; }  // in no order
  bool has(RunKey replay) const;
  std::vector<RunKey> runs() const;  // all of them, in order

  // A stage that changes tells the tree its level once, at the end.
  void beginChange(OpId stage) { changing_ = stage; }
  void endChange();
  // A new replay, with the bytes that are live when the next run begins; one that goes, after all
  // that it added. Within a change.
  void open(RunKey replay);
  void close(RunKey replay);

  void add(const Range& range, Bytes bytes);
  void addBirth(RunKey run, Bytes bytes);  // of outputs, while the run lasts
  // Bytes of values that outputs take over when the run begins.
  void addTaken(RunKey run, Bytes bytes) { slotAt(run)->taken += bytes; }

 private:
  struct Slot {  // one run
    OpId op = kNone;
    std::int32_t listed = kNone;  // replays: index into replays_
    Bytes live = 0;               // values live during it, less what the tree adds to its stage
    Bytes extra = 0;              // fixed bytes and workspace
    Bytes born = 0;               // of live: outputs
    Bytes taken = 0;              // bytes of values that outputs took over when the run began
  };

  void addInStage(const Range& range, OpId stage, Bytes bytes);
  std::vector<Slot>::iterator slotAt(RunKey run);
  void refresh(OpId stage);

  const Graph& graph_;
  std::vector<std::vector<Slot>> slots_;  // per stage: its replays in order, then the first run
  PeakTree tree_;
  std::vector<RunKey> replays_;
  OpId changing_ = kNone;
};

}  // namespace ebbtide::scheduler
