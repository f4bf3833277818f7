// PlannedValues: which of a step's values are its plan's, and what the plan knows about each.
// Torch-free.
//
//   born ─┬─ by what makes the plan's next value ─► planned ── its op gave something else ─┐
//         └─ by anything else ─► unplanned ◄──────────────── taken back, with all after it ┘
//
// Numbers are the step's, but for those that a parameter names `planned`.
//
// Thread rule: one thread adds. Adding, and reading on another thread, takes its owner's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"
#include "plan/plan_alignment.hpp"

namespace ebbtide::plugin {

class PlannedValues {
 public:
  // From the beginning, with no value. The plan must outlive its use here; nullptr: none.
  void follow(const Plan* plan);

  // --- values come
  // Is what this op of the plan makes the plan's next one? kNone: a graph input.
  bool isNextOf(OpId planned_op) const;
  void add(bool planned) { alignment_.add(planned); }  // `planned`: it is the next one
  // Of those that the step has, from `first` on, none is the plan's.
  void unplanFrom(ValueId first) { alignment_.unplanFrom(first); }
  bool differ() const noexcept { return alignment_.differs(); }  // the step has more

  // --- which is which
  ValueId planned(ValueId value) const noexcept { return alignment_.planned(value); }
  ValueId step(ValueId planned) const noexcept { return alignment_.step(planned); }
  bool unplanned(ValueId value) const noexcept { return planned(value) == scheduler::kNone; }

  // --- what the plan knows of a value; of one that is unplanned, nothing
  bool marked(ValueId value, const std::vector<bool> Plan::Values::*what) const;
  std::int32_t fetchesOf(ValueId value) const;
  // Of those that are planned:
  bool isOnHost(ValueId value) const { return plan_->values.on_host[planned(value)]; }
  bool isRestoredLater(ValueId value) const { return plan_->values.restored_later[planned(value)]; }
  const Plan::Codec& codecOf(ValueId value) const { return plan_->values.codec[planned(value)]; }
  // The last event whose replays read it; kNone: none does.
  std::int32_t lastReplayReading(ValueId value) const;

 private:
  const Plan* plan_ = nullptr;
  PlanAlignment alignment_;
};

}  // namespace ebbtide::plugin
