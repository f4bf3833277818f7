// LateInputs: graph inputs that appear after the step's start. Their blocks are allocated in
// mid-step (the next micro-batch, what a custom Function makes), or an unknown op wrote them over
// other values. Keeps no reference to the trace; not thread-safe.
//
//   op begins   alloc: awaited                 op ends   "inputs": an op that makes the value
//               |bytes of the op at hand ----------------|value of the graph
#pragma once

#include <utility>
#include <vector>

#include "ebbtide/scheduler/trace.hpp"
#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

class LateInputs {
 public:
  struct Written {  // over a value, which ends there
    ValueId value;
    ValueId before;
  };

  // `managed`: per block, does the schedule decide about its lifetime? The trace was checked.
  LateInputs(const Trace& trace, const std::vector<bool>& managed);

  // The block's first value, if it is a late input; kNone: it is not.
  ValueId in(BlockId block) const { return source_in_[block]; }
  // The late inputs that were written over other values before this op of the trace.
  const std::vector<Written>& writtenBefore(OpId trace_op) const {
    return written_before_[trace_op];
  }

  // --- blocks that were allocated while an op or event lasts, and are bytes of that until it ends
  void await(BlockId block) { awaited_.push_back(block); }
  bool awaits() const { return !awaited_.empty(); }
  // Freed meanwhile, it never becomes a value. False: it was not awaited.
  bool forget(BlockId block) { return std::erase(awaited_, block) > 0; }
  std::vector<BlockId> takeAwaited() { return std::exchange(awaited_, {}); }

  // --- values that began; `op`: of the graph, which makes it
  void begin(ValueId value, OpId op) { born_at_[value] = op; }
  void beginOver(const Written& written, OpId op) {
    born_at_[written.value] = op;
    takes_over_[written.value] = written.before;
  }
  OpId bornAt(ValueId value) const { return born_at_[value]; }  // kNone: no late input that began
  // The value whose block it took; kNone: none.
  ValueId takesOver(ValueId value) const { return takes_over_[value]; }

 private:
  std::vector<ValueId> source_in_;                    // per block
  std::vector<std::vector<Written>> written_before_;  // per trace op
  std::vector<BlockId> awaited_;
  std::vector<OpId> born_at_;        // per value
  std::vector<ValueId> takes_over_;  // per value
};

}  // namespace ebbtide::scheduler
