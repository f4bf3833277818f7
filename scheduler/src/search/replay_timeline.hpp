// ReplayTimeline: a schedule as the set of its replays, with its peak kept up to date.
//
// Stage t holds the replays that come between the first runs of ops t-1 and t, in program order,
// and ends with the first run of op t (moccasin2023, section 2.3). Retention follows from the runs:
// each copy lives from the run that makes it to the last run that reads it, so the state is legal
// after every change, and a change touches only the gaps between neighbouring runs:
//
//   stage:       2       3       4    |  5                6
//   value v:     made === read ====== | =========== read ==== read         nothing replayed
//                made === read        |      (5,v)= read ==== read         its producer in stage 5
//
// A read costs the bytes of its value from the previous run that makes or reads it to itself; a run
// costs its outputs' bytes while it runs. One change is O(inputs · log ops).
#pragma once

#include <cstdint>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/schedule.hpp"
#include "model/run_key.hpp"
#include "search/stage_levels.hpp"

namespace ebbtide::scheduler {

class ReplayTimeline {
 public:
  // Nothing replayed. The graph must pass checkGraph() and outlive the timeline.
  explicit ReplayTimeline(const Graph& graph);

  Bytes peak() const { return levels_.peak(); }
  Nanoseconds replayNs() const { return replay_ns_; }
  const std::vector<RunKey>& replays() const { return levels_.replays(); }  // in no order
  int replaysOf(OpId op) const { return count_[op]; }
  // The last stage in which the op's inputs may be there for a replay; kNone: it is not rerunnable.
  OpId lastStage(OpId op) const { return last_stage_[op]; }
  // May a replay of `op` ever come in `stage`?
  bool allowed(RunKey replay) const {
    return replay.op() < replay.stage() && replay.stage() <= last_stage_[replay.op()] &&
           open_[replay.stage()] != 0;
  }

  // False, and nothing changes, if it is not allowed or there already, or an input has no copy
  // then.
  bool insert(RunKey replay);
  // False, and nothing changes, if some read would be left without a copy.
  bool remove(RunKey replay);
  // Does no run read what this replay makes?
  bool idle(RunKey replay) const;

  // The run with most live bytes in a stage.
  RunKey peakRun(OpId stage) const { return levels_.peakRun(stage); }
  const PeakTree& stages() const { return levels_.stages(); }
  // All runs that make or read a value through the schedule, in order.
  const std::vector<RunKey>& runsOf(ValueId value) const { return uses_[value]; }
  bool makes(ValueId value, RunKey run) const {
    return run.bits == 0 || run.op() == graph_.values[value].producer;
  }

  Schedule schedule() const;

 private:
  void setLimits();
  void setLives();
  void firstUses();
  bool isRead(ValueId value, std::size_t use) const {
    return use < uses_[value].size() && !makes(value, uses_[value][use]);
  }
  bool firstCopy(ValueId value, std::size_t use) const;
  bool takenOver(ValueId value, std::size_t use) const;
  void cover(ValueId value, std::size_t first, std::size_t last, Bytes sign);
  std::size_t lastAffected(ValueId value, std::size_t use) const;
  void addUse(ValueId value, RunKey run);
  void removeUse(ValueId value, RunKey run);
  void changePlainUse(ValueId value, std::size_t use, Bytes sign);
  bool copyAt(ValueId value, RunKey run) const;

  const Graph& graph_;
  std::vector<OpId> last_stage_;    // per op: lastStage()
  std::vector<std::uint8_t> open_;  // per stage: may it hold replays (replayPositions())?
  std::vector<RunKey> end_;         // per value: the first run that overwrites it, or kNever
  std::vector<OpId> successor_;     // per value: the op whose output takes its bytes over in place
  std::vector<RunKey>
      last_reference_;               // per value: to here the program itself holds the first copy
  std::vector<std::uint8_t> plain_;  // per value: none of these, nor lazy outputs
  std::vector<std::vector<RunKey>> uses_;
  StageLevels levels_;
  std::vector<int> count_;
  Nanoseconds replay_ns_ = 0;
};

// The replays of a schedule, each in its stage, in the order in which they come.
std::vector<RunKey> stagedReplays(const Graph& graph, const Schedule& schedule);

}  // namespace ebbtide::scheduler
