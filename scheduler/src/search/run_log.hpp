// RunLog: a log of op runs, with the copies of values that each reads and makes. It gives their
// schedule: a copy is dropped after its last read. Replays that nothing reads are left out, and so
// are those that only they read. Not thread-safe.
//
//   runs:       a  b  c  a  d           d reads the second copy of a
//   copies:     |a ==|   |a |           each is dropped where it ends
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ebbtide/scheduler/schedule.hpp"
#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

// What is noted at each run is inline. A copy is named by its number, from 0 on.
class RunLog {
 public:
  std::size_t runs() const { return runs_.size(); }

  // What is noted until the next run is of this one. `first`: it is in the schedule in any case.
  void beginRun(OpId op, bool first) {
    runs_.push_back({op, first, reads_.size(), copies_.size()});
  }
  void read(std::int32_t copy) { reads_.push_back(copy); }
  // Before the first run: of a graph input. Gives the copy's number.
  std::int32_t make(ValueId value, bool first) {
    copies_.push_back({value, first, lastRun()});
    return static_cast<std::int32_t>(copies_.size()) - 1;
  }
  // The replay makes a value again although this copy of it is there, and stays.
  void makeAgain(std::int32_t copy) { redundant_.push_back({lastRun(), copy}); }
  // The program's write ends the copy in this run: after it there is no drop.
  void overwrite(std::int32_t copy) { copies_[copy].overwritten_at = lastRun(); }
  // Made by a first run, or a graph input?
  bool isFirst(std::int32_t copy) const { return copies_[copy].first; }

  // Of all runs so far. Time linear in what was noted.
  Schedule schedule();

 private:
  struct Run {
    OpId op;
    bool first;
    std::size_t reads_begin;   // in reads_, up to the next run's
    std::size_t copies_begin;  // in copies_, up to the next run's
  };
  struct Copy {
    ValueId value;
    bool first;
    std::int32_t made_at;            // index into runs_, kNone for a graph input
    std::int32_t last_read = kNone;  // by a run that stays in the schedule
    std::int32_t overwritten_at = kNone;
  };
  struct Redundant {  // a replay made a value although a copy could be kept
    std::int32_t run;
    std::int32_t copy;
  };

  std::int32_t lastRun() const { return static_cast<std::int32_t>(runs_.size()) - 1; }
  std::vector<bool> neededRuns();
  Schedule withDrops(const std::vector<bool>& needed) const;

  std::vector<Run> runs_;
  std::vector<std::int32_t> reads_;
  std::vector<Copy> copies_;
  std::vector<Redundant> redundant_;
};

}  // namespace ebbtide::scheduler
