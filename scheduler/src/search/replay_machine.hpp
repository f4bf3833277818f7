// ReplayMachine: makes a legal schedule of an order of runs in which any op may come any number of
// times (kumar2019, section 2.1: the annotations that keep and free values follow from the order).
//
//   asked for:  a  b  c  a  d        copies of a:  |a ... last read|     |a ... last read|
//
// On a recorded program it adds what the rules ask for: first runs in program order, ops that may
// not be run again once only, values that no replay could make again held to their last need,
// replays of inputs that have no copy. Replays that nothing reads are left out of the schedule.
// In the forward pass of a recorded step nothing may run again: what is asked for there is left
// out, and the copies that it would have made anew live on.
#pragma once

#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/schedule.hpp"
#include "search/op_cone.hpp"
#include "search/retention.hpp"
#include "search/run_log.hpp"

namespace ebbtide::scheduler {

class ReplayMachine {
 public:
  // The graph must pass checkGraph() and outlive the machine.
  explicit ReplayMachine(const Graph& graph);

  // The next run of the op: the first one, after all first runs that the program puts before it, or
  // a replay, if one may serve a later op. Inputs without a copy are made before.
  void run(OpId op);
  // Later reads of the value need a replay. Does nothing unless mayForget().
  void forget(ValueId value);

  bool mayForget(ValueId value) const {
    return current_[value] != kNone && rules_.droppable(value) && forward_need_[value] < next_;
  }
  // Recorded step: the last forward op that reads the value and finds only the schedule's copy.
  OpId forwardNeed(ValueId value) const { return forward_need_[value]; }
  bool ran(OpId op) const { return ran_[op]; }
  // May another run of the op make a value that may have been dropped?
  bool repeatable(OpId op) const { return repeatable_[op]; }
  bool hasCopy(ValueId value) const { return current_[value] != kNone; }
  // Must a run of the op wait for a run that makes this input?
  bool lacks(OpId op, ValueId input) const;
  // The last op that reads the value, itself or by a replay, if first runs come in program order.
  OpId lastNeed(ValueId value) const { return rules_.lastNeed(value); }
  // The op that the next first run in program order runs.
  OpId position() const { return next_; }
  std::size_t runs() const { return log_.runs(); }

  // Bytes of copies not forgotten and of those that the program holds.
  Bytes liveBytes() const { return live_; }
  // Does the program hold the first copy, whatever the schedule does?
  bool programHolds(ValueId value) const { return program_holds_[value]; }
  // Bytes while a run of the op would last now, all its inputs there.
  Bytes bytesToRun(OpId op) const;

  // Runs what is left of the program.
  Schedule finish();

 private:
  bool servedByProgram(OpId op, ValueId input) const;
  void setForwardNeeds();
  bool mayReplay() const;
  void passGaps();
  bool useful(OpId op) const;
  void runMissing(OpId op);
  void firstRun(OpId op);
  void replay(OpId op);
  void beginRun(OpId op, bool first);
  void beginCopy(ValueId value, bool first);
  void overwrite(OpId op);
  Bytes footprint(ValueId value) const;
  void setCopy(ValueId value, std::int32_t copy);
  void setProgramHolds(ValueId value, bool holds);

  const Graph& graph_;
  ScheduleBuilder rules_;
  std::vector<bool> positions_;     // per op: may replays come before its first run?
  std::vector<OpId> forward_need_;  // per value: forwardNeed()
  std::vector<bool> repeatable_, ran_, program_holds_;
  std::vector<std::vector<ValueId>> overwritten_at_, last_references_;
  std::vector<std::int32_t> current_;  // per value: its copy in log_, kNone if there is none
  std::vector<std::int32_t> ahead_;    // per op: phase of a first run that was not asked for
  OpId next_ = 0;
  std::int32_t phase_ = 0;  // backward events so far
  Bytes live_ = 0;

  RunLog log_;
  OpCone cone_;
};

}  // namespace ebbtide::scheduler
