// RecomputeCosts: what dropping or keeping one more value changes in recompute time, estimated from
// the set of ops that a retention replays, each counted once (as with memo).
#pragma once

#include <vector>

#include "search/retention.hpp"

namespace ebbtide::scheduler {

class RecomputeCosts {
 public:
  RecomputeCosts(const Graph& graph, const ScheduleBuilder& builder)
      : graph_(graph), builder_(builder), stamp_(graph.ops.size(), 0) {}

  // To be called after every change of the retention. Linear.
  void update(const Retention& retention);

  bool replayed(OpId op) const { return wanted_outputs_[op] > 0; }
  // Is the value read by an event or by a replay?
  bool needed(ValueId value) const { return uses_[value] > 0; }
  bool kept(ValueId value) const { return kept_[value]; }

  Nanoseconds dropCost(ValueId value);    // time added if this kept value is dropped
  Nanoseconds keepSaving(ValueId value);  // time saved if this dropped value is kept

 private:
  const Graph& graph_;
  const ScheduleBuilder& builder_;
  std::vector<bool> kept_;          // or pinned, or not droppable
  std::vector<std::int32_t> uses_;  // per value: events (one) and replayed ops that read it
  std::vector<std::int32_t> wanted_outputs_;  // per op: outputs not kept and used
  std::vector<std::int32_t> stamp_;
  std::int32_t present_stamp_ = 0;
  std::vector<OpId> stack_;
  std::vector<ValueId> undo_uses_;
  std::vector<OpId> undo_wanted_;
};

}  // namespace ebbtide::scheduler
