// How a step follows its plan: which of its ops, values and saved uses are the plan's, and what is
// dropped after them.
#include <string>

#include "execute/step_run_state.hpp"

namespace ebbtide::plugin {

// Another one than was guessed: the first op's inputs are held, or not, by the wrong guess.
void StepRun::switchPlan(std::shared_ptr<const Plan> plan) {
  const Locked lock(*this);
  follower_.follow(std::move(plan));
  if (options_.log) session_.noteStepPlan(follower_.plan());
  for (std::size_t source = 0; source < values_.size(); ++source) {
    follower_.addPlannedValue();
    const c10::Storage present = values_[source].stored.storage();
    giveUp(values_[source]);
    if (present) holdIfKept(static_cast<ValueId>(source), present);
  }
}

bool StepRun::comparedWhole() const noexcept {
  if (!follower_.rehearses() || follower_.offPlan()) return false;
  const std::vector<bool>& replayed = follower_.plan()->replayed;
  for (std::size_t op = 0; op < replayed.size(); ++op) {
    if (!replayed[op]) continue;
    const OpId here = follower_.stepsOp(static_cast<OpId>(op));
    if (here == kNone || !ops_[here].compared) return false;
    for (const ValueId output : ops_[here].outputs) {
      if (values_[output].rejected) return false;
    }
  }
  return true;
}

void StepRun::leavePlan(const std::string& why) {
  if (!follower_.leave()) return;
  session_.debug("the step left its plan: " + why);
}

// Called with mutex_ held. They were taken for the plan's, and some may be held for it.
void StepRun::unplanFrom(ValueId first) {
  follower_.unplanValuesFrom(first);
  for (auto id = first; id < static_cast<ValueId>(values_.size()); ++id) {
    const c10::Storage present = values_[id].stored.storage();
    if (!present || values_[id].stored.overwritten()) continue;
    giveUp(values_[id]);
    holdIfKept(id, present);
  }
}

bool StepRun::isPlanned(const RunOp& op) const {
  return follower_.isNextOp(op.signature, op.aligned_signature, op.kept_because != nullptr);
}

void StepRun::followPlan(RunOp& op, OpId id) {
  if (!op.on_plan) {
    noteInserted(op, id);
  } else if (!follower_.gaveAsPlanned(id, op.kept_because != nullptr, op.outputs)) {
    const Locked lock(*this);
    op.on_plan = false;
    unplanFrom(op.first_value);
    leavePlan(op.info->name + " at op " + std::to_string(id) + " gave something else");
  } else {
    const std::vector<ValueId>& drops = follower_.passOp(id);
    if (!follower_.rehearses()) applyDrops(drops);
  }
}

// The program does something that the plan does not know: it is kept as without a plan, which goes
// on with the op that it waits for.
void StepRun::noteInserted(RunOp& op, OpId id) {
  const Locked lock(*this);
  unplanFrom(op.first_value);
  const std::string what = op.info->name + " at op " + std::to_string(id);
  const auto inserted = follower_.noteInserted();
  if (inserted == PlanFollower::Inserted::kTooMany) return leavePlan(what);
  if (inserted == PlanFollower::Inserted::kFirst)
    session_.debug("not in the plan, which goes on after it: " + what);
}

// Called with mutex_ held. It made no values: what it read, or saved, it did as part of the
// program around it.
void StepRun::noteNone(const RunOp& op) {
  follower_.removeLastOp();
  for (UseId use = op.first_use; use < static_cast<UseId>(uses_.size()); ++use)
    follower_.joinLate(use, uses_[use].value);
}

// Called with mutex_ held. Is it the plan's next one? What an op of the plan saves has to be.
bool StepRun::joinPlan(UseId use, ValueId value, OpId by) {
  const RunOp* const op = by != kNone && by < static_cast<OpId>(ops_.size()) ? &ops_[by] : nullptr;
  const bool follows = follower_.follows();
  const bool joins = follower_.addUse(value, op == nullptr || op->on_plan);
  if (follows && !joins && op != nullptr && op->on_plan)
    leavePlan("saved tensor " + std::to_string(use));
  return joins;
}

// `drops`: the plan's numbers.
void StepRun::applyDrops(c10::ArrayRef<ValueId> drops) {
  c10::SmallVector<ValueId, 8> here;
  {
    std::lock_guard lock(mutex_);
    for (const ValueId planned : drops) {
      if (const ValueId id = follower_.stepsValue(planned); id != kNone) here.push_back(id);
    }
  }
  for (const ValueId id : here) makeCopy(id);
  const Locked lock(*this);
  giveUpUnasked();
  for (const ValueId id : here) drop(id);
  dropLate();
}

// Called with mutex_ held. Is it to come from an op that turned out not to repeat, since the plan
// was made?
bool StepRun::losesItsOp(ValueId id, const RunValue& value) const {
  return value.stored.held() && value.producer != kNone && follower_.fetchesOf(id) == 0 &&
         session_.replayTrust().distrusts(ops_[value.producer].info->name);
}

// Called with mutex_ held. A value whose hooks are still alive is given up only if the plan makes
// it again.
void StepRun::drop(ValueId id) {
  if (follower_.unplanned(id)) return;
  RunValue& value = values_[id];
  value.made_again = false;
  if (value.readers > 0) return;
  const bool again = follower_.isRestoredLater(id);
  if (again && losesItsOp(id, value)) {
    value.stored.keep();
    value.release_after_uses = value.live_uses > 0;
    return;
  }
  if (value.live_uses > 0 && (!again || value.stored.kept())) {
    value.release_after_uses = true;
    return;
  }
  if (!again && isAskedFor(id)) return kept_graphs_.hold(id);
  if (follower_.rehearses() && again && value.live_uses > 0 && !value.rejected)
    return;  // the original judges the replay
  if (value.rejected) return;
  if (value.stored.servesLater() && !isStillOnHost(value)) giveUpSlot(value);
  if (onlyCopy(id, value)) {
    value.release_after_uses = !fetchedLater(id, value);
    if (value.release_after_uses && value.live_uses == 0) kept_graphs_.hold(id);
    return;
  }
  value.release_after_uses = value.live_uses == 0;
  if (again) follower_.noteDropped(id);
  if (value.stored.held().use_count() > 1) watchContents(id);
  if (!value.stored.isLate()) giveUp(value);
  const bool copy_is_read = value.live_uses > 0 || fetchedLater(id, value) || isAskedFor(id);
  if (!copy_is_read) giveUpCode(value);
  if (!(copy_is_read && follower_.isOnHost(id))) giveUpSlot(value);
}

}  // namespace ebbtide::plugin
