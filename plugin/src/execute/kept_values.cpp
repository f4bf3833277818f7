#include "execute/kept_values.hpp"

#include <c10/util/SmallVector.h>

#include <vector>

namespace ebbtide::plugin {

using scheduler::kNone;

// Without a plan a value is held by its uses alone; with one, as the plan says, and by the uses
// that the plan makes nothing again for.
void KeptValues::holdIfKept(const StepLock::Freeing& lock, ValueId id,
                            const c10::Storage& storage) {
  RunValue& value = values_.at(lock, id);
  if (value.stored.held() || value.stored.overwritten()) return;
  const bool by_plan = !follower_.offPlan() && follower_.values().marked(id, &Plan::Values::hold) &&
                       !value.leftToUses() && !copiedByPlan(lock, id, value);
  const bool by_use =
      value.liveUses() > 0 && (follower_.keepsAll() || value.stored.kept() ||
                               !follower_.values().marked(id, &Plan::Values::restored_later));
  if (!by_plan && !by_use) return;
  if (!by_plan && !follower_.keepsAll()) value.leaveToUses();
  values_.holdPresent(lock, value, storage);
  if (!value.parameter()) values_.noteShared(lock, id);
}

// By a replay that the plan, or the rest of it, still has to run?
bool KeptValues::readByPlan(const StepLock::Held&, ValueId id) const {
  return mayDrop() && follower_.replayReads(id, graphs_.keptEver());
}

// Is a fetch of the plan still to come?
bool KeptValues::fetchedLater(const StepLock::Held&, ValueId id, const RunValue& value) const {
  return value.fetchesDone() < follower_.values().fetchesOf(id);
}

// Would dropping it lose the value? The plan keeps no op record of what it fetches. True where
// neither bits nor the host have a copy, and something still reads the value: a fetch to come, a
// use that lives, or a replay of a kept graph.
bool KeptValues::onlyCopy(const StepLock::Held& lock, ValueId id, const RunValue& value) {
  return follower_.values().fetchesOf(id) > 0 && !copiedByPlan(lock, id, value) &&
         (value.liveUses() > 0 || fetchedLater(lock, id, value) || isAskedFor(lock, id));
}

// Dropped, then, though the program may still hold and save it.
bool KeptValues::copiedByPlan(const StepLock::Held& lock, ValueId id, const RunValue& value) const {
  return value.stored.bits() ||
         (value.stored.slot() && (value.stored.servesLater() || fetchedLater(lock, id, value)) &&
          follower_.values().isOnHost(id));
}

// Its graph is kept: another pass may ask for the value, and the plan need not hold it for that.
bool KeptValues::staysOnHost(const StepLock::Held&, ValueId id, const RunValue& value) const {
  const bool by_plan =
      !follower_.offPlan() && follower_.values().marked(id, &Plan::Values::on_host);
  const bool kept =
      by_plan && (graphs_.keepsNow() || follower_.values().marked(id, &Plan::Values::saved_longer));
  return kept && value.liveUses() > 0 && device_.contents.onHost() &&
         value.stored.slot()->bytes == value.bytes;
}

// By a replay that the plan does not know, for what is still saved?
bool KeptValues::isAskedFor(const StepLock::Held& lock, ValueId id) {
  return follower_.plan() && mayRunBeyondPlan(lock) && savedReader(lock, id).any;
}

// For what that is still saved would a replay read it?
KeptGraphs::Asker KeptValues::savedReader(const StepLock::Held&, ValueId id) {
  const auto end = ops_.next();
  for (OpId next = graphs_.nextOp(); next < end; ++next) {
    const RunOp& op = ops_[next];
    if (!op.finished && next + 1 == end) break;  // it runs
    graphs_.addOp(op.record ? op.inputs : std::vector<ValueId>(), op.outputs);
  }
  return graphs_.askerOf(id, [this](ValueId value) { return values_[value].liveUses() > 0; });
}

// What is saved no more cannot be asked for.
bool KeptValues::mayRunBeyondPlan(const StepLock::Held&) const {
  return saved_.live() > 0 && graphs_.mayRunAgain(follower_.plan()->expects_kept_graphs);
}

// Values of kept graphs that nothing can ask for any more.
void KeptValues::giveUpUnasked(const StepLock::Freeing& lock) {
  if (follower_.offPlan()) return graphs_.forgetHeld();
  const bool may_run = mayRunBeyondPlan(lock);
  for (const ValueId id : graphs_.takeDue(!may_run)) {
    if (const auto asker = may_run ? savedReader(lock, id) : KeptGraphs::Asker(); asker.any) {
      graphs_.holdFor(asker, id);
      continue;
    }
    RunValue& value = values_.at(lock, id);
    const bool needed =
        value.isNeeded() || value.madeAgain() || value.rejected() || value.stored.stale();
    if (needed || fetchedLater(lock, id, value)) continue;
    values_.noteLastReference(lock, id);
    values_.giveUp(lock, value);
    values_.giveUpCopies(lock, value);
  }
}

// Nobody needs it: neither what it would be computed from.
void KeptValues::letGo(const StepLock::Freeing& lock, ValueId first) {
  c10::SmallVector<ValueId, 8> done{first};
  while (!done.empty()) {
    const ValueId id = done.back();
    done.pop_back();
    RunValue& value = values_.at(lock, id);
    if (value.isNeeded()) continue;
    values_.endGuard(lock, value);
    if (follower_.values().unplanned(id)) {
      values_.noteLastReference(lock, id);
      values_.giveUp(lock, value);
      values_.giveUpSlot(lock, value);
      values_.giveUpPristine(lock, value);
    }
    if (!value.recomputable()) continue;
    const auto unread = values_.endReader(lock, id, ops_[value.producer].inputs);
    done.append(unread.begin(), unread.end());
  }
}

// No saved use is left, and the plan, left, drops nothing any more.
void KeptValues::giveUpAll() {
  const StepLock::Freeing lock(lock_);
  for (ValueId id = 0; id < values_.next(); ++id) {
    RunValue& value = values_.at(lock, id);
    if (value.liveUses() > 0) continue;
    values_.noteLastReference(lock, id);
    values_.forgetReaders(lock, id);
    values_.endGuard(lock, value);
    values_.giveUp(lock, value);
    values_.giveUpPristine(lock, value);
    values_.giveUpCopies(lock, value);
  }
}

void KeptValues::leavePlan(const StepLock::Held&, const std::string& why) {
  if (!follower_.leave()) return;
  lines_.debug("the step left its plan: " + why);
}

void KeptValues::keepEverything(const std::string& why) {
  allowed_.keepEverything(why);
  const StepLock::Freeing lock(lock_);
  leavePlan(lock, why);
}

// One tensor fewer reads the value: does it go?
void KeptValues::endUse(const StepLock::Freeing& lock, UseId use) {
  const ValueId id = values_.latest(lock, saved_.valueOf(use));
  if (id == kNone) return;
  RunValue& value = values_.at(lock, id);
  values_.forgetUse(lock, saved_.valueOf(use), use);
  const bool asked_for = isAskedFor(lock, id);
  const bool wanted = !follower_.offPlan() && (value.madeAgain() || fetchedLater(lock, id, value));
  const bool released =
      !wanted && (value.leftToUses() || value.stored.isLate() ||
                  (follower_.keepsAll() && !follower_.values().marked(id, &Plan::Values::hold)));
  if (values_.endUses(lock, id, 1)) endLastUse(lock, id, released, asked_for);
}

void KeptValues::endLastUse(const StepLock::Freeing& lock, ValueId id, bool released,
                            bool asked_for) {
  RunValue& value = values_.at(lock, id);
  const bool done = released && !asked_for;
  if (released && asked_for) graphs_.hold(id);
  graphs_.noteUnsaved(id);
  values_.endWatch(lock, value);
  if (!fetchedLater(lock, id, value) && !asked_for) {
    if (value.stored.servesLater() && value.readers() == 0) {
      values_.giveUpCopies(lock, value);
    } else {
      values_.giveUpCode(lock, value);
    }
  }
  if (done && value.readers() == 0) {
    values_.noteLastReference(lock, id);
    values_.giveUp(lock, value);
    values_.giveUpSlot(lock, value);
  }
  letGo(lock, id);
}

}  // namespace ebbtide::plugin
