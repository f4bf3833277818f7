// PlanFollower: how a step follows its plan. Which of its ops and saved uses are the plan's, what
// is to be dropped next, and whether it is still on the plan. Which of its values are,
// PlannedValues knows, and PlanCursor where it is. Torch-free.
//
//   follow(plan) ─► on the plan ── an op that the plan does not know ─► still on it, which waits
//                        │                                    kMostInserted of them in a row ─┐
//                        └── something lacks or comes out of order ─► leave() ─► off the plan ◄┘
//
// Numbers are the step's, but for those that a parameter names `planned`. It holds the plan; what
// to do about a value is its caller's.
//
// Thread rule: hasPlan(), offPlan(), follows(), keepsAll() and expectsUses() from any thread, and
// of the cursor what it says itself. One thread records. Adding, and reading on another thread than
// that one, takes its owner's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "plan/plan.hpp"
#include "plan/plan_alignment.hpp"
#include "plan/plan_cursor.hpp"
#include "plan/planned_values.hpp"

namespace ebbtide::plugin {

class PlanFollower {
 public:
  static constexpr int kMostInserted = 64;  // ops in a row: then it is another program

  // From its beginning, before anything is dropped; nullptr: keep everything.
  void follow(std::shared_ptr<const Plan> plan);
  const std::shared_ptr<const Plan>& plan() const noexcept { return plan_; }
  PlanCursor& cursor() noexcept { return cursor_; }
  PlannedValues& values() noexcept { return values_; }

  // --- on it, or off
  bool hasPlan() const noexcept { return has_plan_; }
  bool offPlan() const noexcept { return off_plan_; }
  bool follows() const noexcept { return has_plan_ && !off_plan_; }
  // From now on nothing has a place in it. False: there is none, or it was left before.
  bool leave() noexcept { return plan_ && !off_plan_.exchange(true); }
  bool verifies() const noexcept { return verifies_; }
  bool keepsAll() const noexcept { return !has_plan_ || off_plan_ || verifies_; }
  bool doesMore() const noexcept {  // than the plan, which it still follows
    return ops_.differs() || values_.differ() || uses_.differs();
  }
  bool expectsUses() const noexcept { return !off_plan_ && uses_to_come_ > 0; }
  void noteDropped(ValueId value) { dropped_bytes_ += values_.codecOf(value).block_bytes; }
  bool followed() const noexcept;  // it dropped nearly all that the plan drops

  // --- ops
  OpId nextOp() const noexcept { return ops_.next(); }  // of the plan; kNone: all have come
  OpId opsCome() const noexcept { return ops_.come(); }
  OpId plannedOp(OpId op) const noexcept { return ops_.planned(op); }
  OpId stepsOp(OpId planned) const noexcept { return ops_.step(planned); }
  // Is what begins the plan's next one, with all that it reads? `aligned`: its signature by the
  // plan's numbers. `kept`: it may not run again in this step.
  bool isNextOp(std::uint64_t signature, std::uint64_t aligned, bool kept) const;
  void addOp(bool planned) { ops_.add(planned); }
  // The last one made no values: it is none.
  void removeLastOp() { ops_.removeLast(); }
  // Did an op of the plan give what the plan knows of it?
  bool gaveAsPlanned(OpId op, bool kept, const std::vector<ValueId>& outputs) const;
  enum class Inserted { kFirst, kMore, kTooMany };  // in this row; too many: it is to leave
  Inserted noteInserted();                          // one that is not the plan's has ended
  // One of the plan's has ended, and gave that: the drops after it, by the plan's numbers.
  const std::vector<ValueId>& passOp(OpId op);

  // --- values
  // One is born. A graph input that an op of another program reads first is taken for the plan's
  // next value until that op ends.
  void addValue(OpId producer);
  // By a replay that the rest of the plan still has to run? `kept_graph`: any may be asked for
  // again.
  bool replayReads(ValueId value, bool kept_graph) const;

  // --- saved uses
  // One is saved. `may_join`: between ops, or by an op of the plan. Is it the plan's next one?
  bool addUse(ValueId value, bool may_join);
  // The op that saved it turned out to be none: it may be the plan's next one after all.
  void joinLate(UseId use, ValueId value);
  bool followsUse(UseId use) const;
  // Is its node in the plan? The plan does not wait for what it has not seen unpacked.
  bool isUnpacked(UseId use) const;  // of those that are planned
  // Unpacked as often as the plan knows; false where it is unplanned.
  bool isUnpackedFor(UseId use, std::uint32_t visits) const;
  std::int32_t eventOf(UseId use, std::uint32_t& visits) const {
    return cursor_.eventOf(uses_.planned(use), visits);
  }

  // --- events
  // Has all that these replay and fetch been there in this step?
  bool canRun(const std::vector<scheduler::Step>& prelude) const;
  const std::vector<scheduler::Step>& preludeOf(std::int32_t event) const {
    return plan_->events[event].prelude;
  }
  // Ends the present one: its drops, by the plan's numbers; nullptr: there is none.
  const std::vector<ValueId>* endEvent();

 private:
  bool isNextUse(ValueId value) const;
  bool isKeptUnplanned(OpId planned, bool kept) const {
    return kept && plan_->ops.replayed[planned];
  }

  std::shared_ptr<const Plan> plan_;
  std::atomic<bool> has_plan_{false};
  std::atomic<bool> off_plan_{false};
  std::atomic<bool> verifies_{false};
  PlanAlignment ops_, uses_;
  PlannedValues values_;
  int inserted_ = 0;  // ops since the last planned one
  std::atomic<std::int64_t> uses_to_come_{0};
  std::atomic<std::int64_t> dropped_bytes_{0};  // of Prediction::drop_bytes
  PlanCursor cursor_;
};

}  // namespace ebbtide::plugin
