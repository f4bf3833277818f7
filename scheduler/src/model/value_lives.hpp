// ValueLives: until which op of the graph the program holds each value of a recorded step, and
// until which its saved tensors do.
#pragma once

#include <cstdint>
#include <vector>

#include "ebbtide/scheduler/trace.hpp"
#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

// Not thread-safe. Each `op` is the graph's op that began last.
class ValueLives {
 public:
  explicit ValueLives(const Trace& trace);

  // --- as the step is walked through
  void noteFreed(BlockId block, OpId op) { freed_at_.at(block) = op; }
  void noteLastReference(ValueId value, OpId op) { last_reference_.at(value) = op; }
  // One saved tensor of the value is released: by `op` at the latest, or in a gap between ops. The
  // gap is one that may or may not get an op. kNone is no value.
  void noteRelease(ValueId value, OpId op);
  void noteReleaseInGap(ValueId value);
  // The gap has ended, and this op stands for it.
  void endGap(OpId op);

  // --- once the step is over
  OpId freedAt(BlockId block) const { return freed_at_[block]; }  // kNone: it outlives the step
  // The last op during which the program holds the value in that block; kNone: to the end.
  OpId lastHeld(ValueId value, BlockId block) const {
    return last_reference_[value] != kNone ? last_reference_[value] : freed_at_[block];
  }
  // The op up to which saved tensors hold it; kNone: none did. `last`: of the step.
  OpId savedUntil(ValueId value, OpId last) const {
    return to_release_[value] > 0 ? last : released_at_[value];
  }

 private:
  std::vector<OpId> freed_at_;            // per block
  std::vector<OpId> last_reference_;      // per value
  std::vector<OpId> released_at_;         // per value: when its last saved tensor was
  std::vector<std::int32_t> to_release_;  // per value: saved tensors that were not
  std::vector<ValueId> released_in_gap_;
};

}  // namespace ebbtide::scheduler
