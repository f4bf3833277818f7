// StepOps: builds a graph's ops during a walk through a recorded step: when each begins, how long
// events last, and the bytes that no schedule can change. Not thread-safe.
//
//   trace:   op begins   op begins   unpack   release      alloc    op begins
//   graph:   |op         |op         |event   |gap         :        |op
//
// A gap is what follows an event's release. It becomes an op of its own if it holds more than the
// event.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

class StepOps {
 public:
  struct Made {  // as TraceGraph has them
    std::vector<Op> ops = {};
    std::vector<OpId> trace_op_of = {};
    std::vector<std::size_t> event_of = {};
  };

  // `fixed_bytes`: when the step begins.
  explicit StepOps(Bytes fixed_bytes) : fixed_(fixed_bytes), gap_peak_(fixed_bytes) {}

  // What begins or ends from now on does so with this event of the trace.
  void reach(std::size_t event, Nanoseconds at_ns) {
    event_ = event;
    at_ns_ = at_ns;
  }

  bool empty() const { return made_.ops.empty(); }
  OpId last() const { return static_cast<OpId>(made_.ops.size()) - 1; }  // kNone: there is none

  // What no schedule can change lives now.
  Bytes fixedBytes() const { return fixed_; }
  // So much comes, or goes. Before the first op it is the first op's.
  void addFixed(Bytes bytes);

  // After end().
  void begin(Op op, OpId trace_op = kNone);
  // The op that began last reads the value; a second read adds nothing.
  void read(ValueId value);
  // The op that began last ends, and the gap behind it. last() stands for the gap then: the gap's
  // own op, or the event.
  void end();

  // After an event. A gap that lasts ends before.
  void beginGap();
  // Have bytes come in the open gap? Then a release in it belongs to the gap's op, if it gets
  // one.
  bool gapGrew() const { return in_gap_ && gap_peak_ > gap_start_; }

  // All ops, at the step's end.
  Made take();

 private:
  void endEvent();
  void endGap();

  Made made_;
  std::size_t event_ = 0;      // that is walked through
  std::size_t gap_event_ = 0;  // with which the gap begins
  Nanoseconds at_ns_ = 0;
  Nanoseconds begun_ns_ = 0;  // the op that began last
  Bytes fixed_;
  Bytes gap_peak_, gap_start_ = 0;
  Bytes op_start_ = 0;
  Bytes before_first_ = 0;  // the most before the first op
  bool in_gap_ = false;
};

}  // namespace ebbtide::scheduler
