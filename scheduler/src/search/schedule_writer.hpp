// ScheduleWriter: writes a schedule of a recorded program run by run; the drops follow. Each copy
// of a value lives from the run that makes it to the last one that reads it:
//
//   runs:       a  b  c  a  d                a is forgotten after c, so that d needs another copy
//   copies:     |a ==|   |a |                each is dropped where it ends
#pragma once

#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/schedule.hpp"

namespace ebbtide::scheduler {

class ScheduleWriter {
 public:
  // The graph must pass checkGraph() and outlive the writer.
  explicit ScheduleWriter(const Graph& graph);

  // Nothing has run; graph inputs have copies. Keeps its memory.
  void begin();

  // The ops whose replays, in program order, make every input that the next run of `op` lacks.
  // Valid until the next call.
  const std::vector<OpId>& missingFor(OpId op);
  // The next first run in program order; its inputs are there.
  void firstRun(OpId op);
  void replay(OpId op);
  // Later reads of the value need another copy.
  void forget(ValueId value) { current_[value] = kNone; }

  OpId next() const { return next_; }  // the op of the next first run
  // Is there a copy for later reads? And is it the first one?
  bool hasCopy(ValueId value) const { return current_[value] != kNone; }
  bool hasFirstCopy(ValueId value) const {
    return hasCopy(value) && copies_[current_[value]].first;
  }

  Schedule schedule();

 private:
  struct Copy {
    ValueId value;
    std::int32_t last_run;  // the run that reads it last, at first the one that makes it
    bool first;             // made by the first run, or a graph input
    bool overwritten;       // ended by the program in its last run: no drop
  };
  struct Redundant {  // a replay made a value that had a copy
    std::int32_t run;
    std::int32_t copy;
  };

  bool servedByProgram(ValueId value, OpId op) const;
  void overwrite(OpId op);
  void addDrop(std::int32_t run, ValueId value);
  void read(ValueId value);
  void beginCopy(ValueId value, bool first);

  const Graph& graph_;
  std::vector<std::vector<ValueId>> overwritten_at_;

  OpId next_ = 0;
  std::vector<OpId> runs_;
  std::vector<Copy> copies_;
  std::vector<Redundant> redundant_;
  std::vector<std::int32_t> current_;  // per value: index into copies_, kNone if there is none
  std::vector<OpId> cone_, stack_;
  std::vector<std::int32_t> cone_stamp_;
  std::int32_t stamp_ = 0;
  std::vector<std::int32_t> drop_head_, drop_next_;  // per run (plus one): a list of entries
  std::vector<ValueId> drop_value_;                  // per entry
};

}  // namespace ebbtide::scheduler
