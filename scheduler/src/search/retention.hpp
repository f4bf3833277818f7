// Retention: which copies of which values are retained; the form that planners search over.
//
//   value kept:          |birth ======================================= last reader|
//   not kept, memo:      |birth == until|         |recomputed ========= last reader|
//   not kept, no memo:   |birth == until|         |event|        |event|     |event|
//
// until: the last reader that is not backward, or last_reference if that is later.
#pragma once

#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/schedule.hpp"
#include "search/schedule_writer.hpp"

namespace ebbtide::scheduler {

struct Retention {
  std::vector<bool> keep;  // per value: the first copy is retained to its last reader
  std::vector<bool>
      memo;  // per value: a recomputed copy is retained to its last reader, not for one event
  // Per value with memo: copies recomputed for ops before this one serve that op alone. Empty: 0.
  std::vector<OpId> memo_from = {};
};

// Builds schedules on one graph; keeps its scratch memory between them. Not for concurrent use.
// The graph must pass checkGraph() and outlive the builder.
class ScheduleBuilder {
 public:
  explicit ScheduleBuilder(const Graph& graph);

  // May a schedule drop this value before its last reader? Not if it is pinned or cannot be
  // recomputed whenever a reader, or a replay for a reader, needs it: such values are kept whatever
  // Retention says.
  bool droppable(ValueId value) const { return droppable_[value]; }
  // Does a backward event read it?
  bool readByEvents(ValueId value) const { return event_read_[value] != kNone; }
  // The last op that reads it, itself or by a replay; kNone if none.
  OpId lastNeed(ValueId value) const { return last_need_[value]; }

  Retention keepAll() const;  // keeps every value that an event reads
  // Time linear in the graph and in the schedule built; no recursion.
  Schedule build(const Retention& retention);

 private:
  void computeNeeds();
  void replay(OpId op, OpId reader, const Retention& retention);
  void expire(OpId op, const Retention& retention);

  const Graph& graph_;
  std::vector<bool> droppable_;
  std::vector<OpId> event_read_, last_need_;
  std::vector<std::vector<ValueId>> expiry_;
  ScheduleWriter writer_;
  std::vector<ValueId> event_copies_;  // recomputed for the present event only
};

Schedule buildSchedule(const Graph& graph, const Retention& retention);

}  // namespace ebbtide::scheduler
