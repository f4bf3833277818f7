// OpCone: the ops that have to run before another one, each found once.
//
//   begin() ─► require() ─► next(): an op ─► require() what it lacks ─► … ─► next(): none ─► ops()
//
// Thread rule: one thread; each search has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

// Keeps its memory between two cones. All of it is inline: planners ask it at each run.
class OpCone {
 public:
  explicit OpCone(std::size_t ops) : seen_(ops, 0) {}

  // Another cone. The one before was walked to its end.
  void begin() {
    ops_.clear();
    ++stamp_;
  }
  void require(OpId op) {
    if (seen_[op] == stamp_) return;
    seen_[op] = stamp_;
    stack_.push_back(op);
  }
  // The next required op; the caller then requires the ops that it lacks. kNone: none is left.
  OpId next() {
    if (stack_.empty()) return kNone;
    const OpId op = stack_.back();
    stack_.pop_back();
    ops_.push_back(op);
    return op;
  }
  // All that next() gave, in program order.
  const std::vector<OpId>& ops() {
    std::sort(ops_.begin(), ops_.end());
    return ops_;
  }

 private:
  std::vector<OpId> stack_, ops_;
  std::vector<std::int32_t> seen_;  // per op: the last cone that it was required for
  std::int32_t stamp_ = 0;          // of this cone
};

}  // namespace ebbtide::scheduler
