#include "plan/plan_follower.hpp"

#include <algorithm>
#include <utility>

namespace ebbtide::plugin {

using scheduler::kNone;

void PlanFollower::follow(std::shared_ptr<const Plan> plan) {
  plan_ = std::move(plan);
  verifies_ = plan_ && !plan_->trusted;
  has_plan_ = plan_ != nullptr;
  const Plan none;
  const Plan& expected = plan_ ? *plan_ : none;
  ops_.expect(expected.ops.signatures.size());
  uses_.expect(expected.uses.value.size());
  uses_to_come_ = static_cast<std::int64_t>(expected.uses.value.size());
  off_plan_ = false;
  values_.follow(plan_.get());
  cursor_.follow(plan_.get());
}

bool PlanFollower::followed() const noexcept {
  if (!plan_ || verifies_) return false;
  return plan_->predicted.drop_bytes > 0 ? plan_->isFollowedBy(dropped_bytes_) : !off_plan_;
}

// ---------------------------------------------------------------------------------------------
// ops

bool PlanFollower::isNextOp(std::uint64_t signature, std::uint64_t aligned, bool kept) const {
  const OpId next = ops_.next();
  if (!follows() || next == kNone) return false;
  return plan_->ops.signatures[next] == (doesMore() ? aligned : signature) &&
         !isKeptUnplanned(next, kept);
}

bool PlanFollower::gaveAsPlanned(OpId op, bool kept, const std::vector<ValueId>& outputs) const {
  const OpId planned = ops_.planned(op);
  return !isKeptUnplanned(planned, kept) && outputs.size() == plan_->ops.outputs[planned] &&
         std::none_of(outputs.begin(), outputs.end(),
                      [this](ValueId output) { return values_.unplanned(output); });
}

PlanFollower::Inserted PlanFollower::noteInserted() {
  const bool first_op = ops_.step(0) == kNone;
  if (first_op || ++inserted_ > kMostInserted) return Inserted::kTooMany;
  return inserted_ == 1 ? Inserted::kFirst : Inserted::kMore;
}

const std::vector<ValueId>& PlanFollower::passOp(OpId op) {
  inserted_ = 0;
  return plan_->ops.drops_after[ops_.planned(op)];
}

// ---------------------------------------------------------------------------------------------
// values

void PlanFollower::addValue(OpId producer) {
  if (!plan_) return;
  const OpId maker = producer == kNone ? kNone : ops_.planned(producer);
  const bool of_another_op = producer != kNone && maker == kNone;
  values_.add(!off_plan_ && !of_another_op && values_.isNextOf(maker));
}

bool PlanFollower::replayReads(ValueId value, bool kept_graph) const {
  const std::int32_t last_read = values_.lastReplayReading(value);
  const bool again = last_read != kNone && (kept_graph || off_plan_);
  return last_read >= cursor_.next() || again;
}

// ---------------------------------------------------------------------------------------------
// saved uses

// The value that the plan knows it by, or one before that in the same storage, from which it moves
// on as other parts are written.
bool PlanFollower::isNextUse(ValueId value) const {
  const UseId next = uses_.next();
  if (next == kNone) return false;
  ValueId expected = plan_->uses.value[next];
  if (expected == kNone || value == kNone) return expected == value;
  const ValueId wanted = values_.planned(value);
  if (wanted == kNone) return false;
  while (expected != wanted && expected != kNone) expected = plan_->values.previous_epoch[expected];
  return expected == wanted;
}

bool PlanFollower::addUse(ValueId value, bool may_join) {
  const bool joins = follows() && may_join && isNextUse(value);
  if (plan_) uses_.add(joins);
  if (joins) --uses_to_come_;
  return joins;
}

void PlanFollower::joinLate(UseId use, ValueId value) {
  const bool joined = uses_.planned(use) != kNone;
  if (off_plan_ || joined || !isNextUse(value)) return;
  uses_.adopt(use);
  --uses_to_come_;
}

bool PlanFollower::followsUse(UseId use) const {
  return follows() && uses_.planned(use) != kNone;
}

bool PlanFollower::isUnpacked(UseId use) const {
  return !plan_->uses.events[uses_.planned(use)].empty();
}

bool PlanFollower::isUnpackedFor(UseId use, std::uint32_t visits) const {
  const UseId planned = uses_.planned(use);
  return planned != kNone && visits == plan_->uses.events[planned].size();
}

// ---------------------------------------------------------------------------------------------
// events

bool PlanFollower::canRun(const std::vector<scheduler::Step>& prelude) const {
  return std::all_of(prelude.begin(), prelude.end(), [this](const scheduler::Step& step) {
    if (step.kind == scheduler::Step::Kind::kDrop) return true;
    const bool run = step.kind == scheduler::Step::Kind::kRun;
    return (run ? ops_.step(step.id) : values_.step(step.id)) != kNone;
  });
}

const std::vector<ValueId>* PlanFollower::endEvent() {
  if (cursor_.current() == kNone) return nullptr;
  return &plan_->events[cursor_.end()].drops;
}

}  // namespace ebbtide::plugin
