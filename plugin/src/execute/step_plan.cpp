// How a step follows its plan: which of its ops, values and saved uses are the plan's, and what is
// dropped after them.
#include <algorithm>

#include "execute/step_run_state.hpp"

namespace ebbtide::plugin {

void StepRun::usePlan(std::shared_ptr<const Plan> plan) {
  options_.plan = std::move(plan);
  rehearsing_ = options_.plan && !options_.plan->trusted;
  has_plan_ = options_.plan != nullptr;
  const Plan none;
  const Plan& expected = options_.plan ? *options_.plan : none;
  aligned_ops_.expect(expected.op_signatures.size());
  aligned_values_.expect(expected.producer.size());
  aligned_uses_.expect(expected.use_value.size());
  planned_uses_to_come_ = static_cast<std::int64_t>(expected.use_value.size());
  off_plan_ = false;
  cursor_.follow(options_.plan.get());
}

// Another one than was guessed: the first op's inputs are held, or not, by the wrong guess.
void StepRun::switchPlan(std::shared_ptr<const Plan> plan) {
  const Locked lock(*this);
  usePlan(std::move(plan));
  if (options_.log) session_.noteStepPlan(options_.plan);
  for (std::size_t source = 0; source < values_.size(); ++source) {
    aligned_values_.add(true);
    const c10::Storage present = values_[source].storage();
    giveUp(values_[source]);
    if (present) holdIfKept(static_cast<ValueId>(source), present);
  }
}

bool StepRun::followed() const noexcept {
  if (!options_.plan || rehearsing_) return false;
  return options_.plan->drop_bytes > 0 ? options_.plan->isFollowedBy(dropped_bytes_) : !off_plan_;
}

bool StepRun::comparedWhole() const noexcept {
  if (!rehearsing_ || off_plan_) return false;
  const std::vector<bool>& replayed = options_.plan->replayed;
  for (std::size_t op = 0; op < replayed.size(); ++op) {
    if (!replayed[op]) continue;
    const OpId here = aligned_ops_.step(static_cast<OpId>(op));
    if (here == kNone || !ops_[here].compared) return false;
    for (const ValueId output : ops_[here].outputs) {
      if (values_[output].rejected) return false;
    }
  }
  return true;
}

void StepRun::leavePlan(const std::string& why) {
  if (!options_.plan || off_plan_.exchange(true)) return;
  session_.debug("the step left its plan: " + why);
}

// Called with mutex_ held. They were taken for the plan's, and some may be held for it.
void StepRun::unplanFrom(ValueId first) {
  aligned_values_.unplanFrom(first);
  for (auto id = first; id < static_cast<ValueId>(values_.size()); ++id) {
    const c10::Storage present = values_[id].storage();
    if (!present || values_[id].overwritten) continue;
    giveUp(values_[id]);
    holdIfKept(id, present);
  }
}

bool StepRun::planned(ValueId id, const std::vector<bool> Plan::*what) const {
  const ValueId planned = plannedAs(id);
  return planned != kNone && (options_.plan.get()->*what)[planned];
}

// The next one of the plan, with all that it reads?
bool StepRun::isPlanned(const RunOp& op) const {
  const OpId next = aligned_ops_.next();
  if (!options_.plan || off_plan_ || next == kNone) return false;
  const std::uint64_t signature = doesMore() ? op.aligned_signature : op.signature;
  return options_.plan->op_signatures[next] == signature && !isKeptUnplanned(op, next);
}

// In this step it may not run again, which in the recorded one it could.
bool StepRun::isKeptUnplanned(const RunOp& op, OpId planned) const {
  return op.kept_because != nullptr && options_.plan->replayed[planned];
}

void StepRun::followPlan(RunOp& op, OpId id) {
  const OpId planned = aligned_ops_.planned(id);
  const auto foreseen = [this, &op, planned] {
    return !isKeptUnplanned(op, planned) && op.outputs.size() == options_.plan->outputs[planned] &&
           std::none_of(op.outputs.begin(), op.outputs.end(),
                        [this](ValueId output) { return unplanned(output); });
  };
  if (!op.on_plan) {
    noteInserted(op, id);
  } else if (!foreseen()) {
    const Locked lock(*this);
    op.on_plan = false;
    unplanFrom(op.first_value);
    leavePlan(op.info->name + " at op " + std::to_string(id) + " gave something else");
  } else {
    inserted_ = 0;
    if (!rehearsing_) applyDrops(options_.plan->drops_after_op[planned]);
  }
}

// The program does something that the plan does not know: it is kept as without a plan, which goes
// on with the op that it waits for.
void StepRun::noteInserted(RunOp& op, OpId id) {
  const Locked lock(*this);
  unplanFrom(op.first_value);
  const std::string what = op.info->name + " at op " + std::to_string(id);
  const bool first_op = aligned_ops_.step(0) == kNone;
  if (first_op || ++inserted_ > kMostInserted) return leavePlan(what);
  if (inserted_ == 1) session_.debug("not in the plan, which goes on after it: " + what);
}

// Called with mutex_ held. It made no values: what it read, or saved, it did as part of the
// program around it.
void StepRun::noteNone(const RunOp& op) {
  aligned_ops_.removeLast();
  for (UseId use = op.first_use; use < static_cast<UseId>(uses_.size()); ++use) {
    const bool joined = aligned_uses_.planned(use) != kNone;
    if (off_plan_ || joined || !isPlannedUse(aligned_uses_.next(), uses_[use].value)) continue;
    aligned_uses_.adopt(use);
    --planned_uses_to_come_;
  }
}

// Called with mutex_ held. Is what is born now the plan's next one? A source that an op of another
// program reads first is taken for one until that op ends.
bool StepRun::isPlannedValue(OpId producer) const {
  const ValueId next = aligned_values_.next();
  if (off_plan_ || next == kNone) return false;
  const OpId maker = producer == kNone ? kNone : aligned_ops_.planned(producer);
  if (producer != kNone && maker == kNone) return false;
  return options_.plan->producer[next] == maker;
}

// Called with mutex_ held. Is it the plan's next one? What an op of the plan saves has to be.
bool StepRun::joinPlan(UseId use, ValueId value, OpId by) {
  const RunOp* const op = by != kNone && by < static_cast<OpId>(ops_.size()) ? &ops_[by] : nullptr;
  const bool follows = options_.plan && !off_plan_;
  const bool joins =
      follows && (op == nullptr || op->on_plan) && isPlannedUse(aligned_uses_.next(), value);
  if (options_.plan) aligned_uses_.add(joins);
  if (joins) --planned_uses_to_come_;
  if (follows && !joins && op != nullptr && op->on_plan)
    leavePlan("saved tensor " + std::to_string(use));
  return joins;
}

// The value that the plan knows it by, or one before that in the same storage, from which it moves
// on as other parts are written.
bool StepRun::isPlannedUse(UseId planned, ValueId value) const {
  if (planned == kNone) return false;
  ValueId expected = options_.plan->use_value[planned];
  if (expected == kNone || value == kNone) return expected == value;
  const ValueId wanted = plannedAs(value);
  if (wanted == kNone) return false;
  while (expected != wanted && expected != kNone)
    expected = options_.plan->previous_epoch[expected];
  return expected == wanted;
}

// `drops`: the plan's numbers.
void StepRun::applyDrops(c10::ArrayRef<ValueId> drops) {
  c10::SmallVector<ValueId, 8> here;
  {
    std::lock_guard lock(mutex_);
    for (const ValueId planned : drops) {
      if (const ValueId id = aligned_values_.step(planned); id != kNone) here.push_back(id);
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
  return value.held && value.producer != kNone && options_.plan->fetches_of[plannedAs(id)] == 0 &&
         session_.replayTrust().distrusts(ops_[value.producer].info->name);
}

// Called with mutex_ held. A value whose hooks are still alive is given up only if the plan makes
// it again.
void StepRun::drop(ValueId id) {
  if (unplanned(id)) return;
  RunValue& value = values_[id];
  value.made_again = false;
  if (value.readers > 0) return;
  const bool again = options_.plan->restored_later[plannedAs(id)];
  if (again && losesItsOp(id, value)) {
    value.kept = true;
    value.release_after_uses = value.live_uses > 0;
    return;
  }
  if (value.live_uses > 0 && (!again || value.kept)) {
    value.release_after_uses = true;
    return;
  }
  if (!again && isAskedFor(id)) return kept_graphs_.hold(id);
  if (rehearsing_ && again && value.live_uses > 0 && !value.rejected)
    return;  // the original judges the replay
  if (value.rejected) return;
  if (value.also_on_host && value.spilled && !isStillOnHost(value)) {
    session_.spills().release(*std::exchange(value.spilled, std::nullopt));
    value.also_on_host = false;
  }
  if (onlyCopy(id, value)) {
    value.release_after_uses = !fetchedLater(id, value);
    if (value.release_after_uses && value.live_uses == 0) kept_graphs_.hold(id);
    return;
  }
  value.release_after_uses = value.live_uses == 0;
  if (again) dropped_bytes_ += options_.plan->codec[plannedAs(id)].block_bytes;
  if (value.held && value.held.use_count() > 1) watchContents(id);
  if (!value.late) giveUp(value);
  const bool copy_is_read = value.live_uses > 0 || fetchedLater(id, value) || isAskedFor(id);
  if (!copy_is_read) giveUpCode(value);
  if (value.spilled && !(copy_is_read && options_.plan->on_host[plannedAs(id)]))
    session_.spills().release(*std::exchange(value.spilled, std::nullopt));
}

}  // namespace ebbtide::plugin
