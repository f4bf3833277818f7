#include "execute/plan_drops.hpp"

#include <c10/util/SmallVector.h>

#include <optional>
#include <utility>

#include "base/elapsed.hpp"
#include "base/thread_scopes.hpp"
#include "execute/traced_scope.hpp"
#include "execute/whole_code.hpp"

namespace ebbtide::plugin {

using scheduler::kNone;

void PlanDrops::applyDrops(c10::ArrayRef<ValueId> drops) {
  // Most ops and events drop nothing. On the host nothing is dropped late.
  if (drops.empty() && !graphs_.watchesAny() && device_.contents.onHost()) return;
  c10::SmallVector<ValueId, 8> here;
  {
    const StepLock::Held lock(lock_);
    for (const ValueId planned : drops) {
      if (const ValueId id = follower_.values().step(planned); id != kNone) here.push_back(id);
    }
  }
  for (const ValueId id : here) makeCopy(id);
  const StepLock::Freeing lock(lock_);
  kept_values_.giveUpUnasked(lock);
  for (const ValueId id : here) drop(lock, id);
  values_.dropLate(lock, follower_.offPlan());
}

// A value whose hooks are still alive is given up only if the plan makes it again.
void PlanDrops::drop(const StepLock::Freeing& lock, ValueId id) {
  if (follower_.values().unplanned(id)) return;
  RunValue& value = values_.at(lock, id);
  value.noteDropDue();
  if (value.readers() > 0) return;
  const bool again = follower_.values().isRestoredLater(id);
  if (again && !follower_.verifies() && staysWritten(lock, value)) return;
  if (again && losesItsOp(lock, id, value)) {
    value.stored.keep();
    value.leaveToUsesIf(value.liveUses() > 0);
    return;
  }
  if (value.liveUses() > 0 && (!again || value.stored.kept())) {
    value.leaveToUses();
    return;
  }
  if (!again && kept_values_.isAskedFor(lock, id)) return graphs_.hold(id);
  if (follower_.verifies() && again && value.liveUses() > 0 && !value.rejected())
    return;  // the original judges the replay
  if (value.rejected()) return;
  if (value.stored.servesLater() && !isStillOnHost(lock, value)) values_.giveUpSlot(lock, value);
  if (kept_values_.onlyCopy(lock, id, value)) {
    value.leaveToUsesIf(!kept_values_.fetchedLater(lock, id, value));
    if (value.leftToUses() && value.liveUses() == 0) graphs_.hold(id);
    return;
  }
  value.leaveToUsesIf(value.liveUses() == 0);
  if (again) follower_.noteDropped(id);
  if (value.stored.held().use_count() > 1) values_.watchContents(lock, id);
  if (!value.stored.isLate()) values_.giveUp(lock, value);
  const bool copy_is_read = value.liveUses() > 0 || kept_values_.fetchedLater(lock, id, value) ||
                            kept_values_.isAskedFor(lock, id);
  if (!copy_is_read) values_.giveUpCode(lock, value);
  if (!(copy_is_read && follower_.values().isOnHost(id))) values_.giveUpSlot(lock, value);
}

// Did something unseen write it since it was looked at last? It takes a look.
bool PlanDrops::looksWritten(const StepLock::Freeing& lock, const RunValue& value) const {
  const auto& stored = value.stored;
  if (!value.expected() || !value.print()) return false;
  if (stored.replaced() || stored.overwritten() || stored.stale()) return false;
  c10::Storage present = stored.storage();
  if (!present) return false;
  const bool written = !value.isElsewhere(present) && !verifier_.matches(value, present);
  lock.giveUp(std::move(present));  // perhaps the last reference by now
  return written;
}

// Then no replay gives what its uses and its next readers are to read: it is there until the plan
// wants it no more. What is copied was looked at before. The free of a block that the program holds
// looks too, for its uses.
bool PlanDrops::staysWritten(const StepLock::Freeing& lock, RunValue& value) {
  if (value.changed() && value.stored.kept()) return true;
  if (value.stored.slot() || value.stored.bits()) return false;
  const bool ours_alone = value.stored.held() && value.stored.held().use_count() == 1;
  const bool due = value.hasUnlookedReads() || (ours_alone && value.liveUses() > 0);
  if (!due || !looksWritten(lock, value)) return false;
  value.noteChanged(ops_.next());
  if (value.liveUses() == 0) return false;  // nothing but replays, which are told that it changed
  value.stored.holdIfAlive();
  return value.stored.keepWritten();
}

// Is it to come from an op that turned out not to repeat, since the plan was made?
bool PlanDrops::losesItsOp(const StepLock::Held&, ValueId id, const RunValue& value) const {
  return value.stored.held() && value.producer != kNone && follower_.values().fetchesOf(id) == 0 &&
         trust_.distrusts(ops_[value.producer].info->name);
}

// Before a drop after which the plan wants the value again. Without the lock: it allocates.
void PlanDrops::makeCopy(ValueId id) {
  c10::Storage present;
  RunValue* found = nullptr;
  ValueId planned = kNone;
  auto extent = Fingerprint::Extent::kSample;
  {
    const StepLock::Freeing lock(lock_);
    planned = follower_.values().planned(id);
    if (planned == kNone || follower_.plan()->values.fetches[planned] == 0) return;
    RunValue& value = *(found = &values_.at(lock, id));
    if (!kept_values_.fetchedLater(lock, id, value) || value.stored.bits() || value.stored.slot())
      return;
    if (follower_.verifies() && value.liveUses() > 0) return;  // kept anyway
    present = value.stored.storage();
    if (!present) return;
    if (value.print()) extent = value.print()->extent();
    if (value.expected()) extent = Fingerprint::Extent::kAll;
    if (looksWritten(lock, value)) value.noteChanged(ops_.next());
    // Until it is copied; the program may let go of it.
    if (!value.stored.held() && !value.stored.replaced()) values_.noteShared(lock, id);
    value.stored.hold(present);
    if (!follower_.plan()->values.on_host[planned]) value.forgetCodec();
    const bool as_born = !value.stored.overwritten() && !value.stored.stale() &&
                         (value.stored.replaced() || value.intact());
    if (!as_born || static_cast<std::int64_t>(present.nbytes()) != value.bytes) return;
  }
  if (follower_.plan()->values.on_host[planned]) {
    offload(*found, present);
  } else {
    encode(*found, planned, present);
  }
  // The program holds it too: whether its block was written unseen is to be told when it is freed.
  if (present.use_count() <= 2) return;
  const auto print = verifier_.printOf(*found, present, extent);
  const StepLock::Freeing lock(lock_);
  found->notePrint(print);
}

void PlanDrops::encode(RunValue& value, ValueId planned, const c10::Storage& present) {
  const TracedScope traced(trace_, TracedSpan::Kind::kEncode, nullptr, value.bytes);
  const auto start = Clock::now();
  c10::Storage bits;
  std::optional<BitCode> code;
  try {
    const EventLog::OursScope ours;
    const TrialScope trial;  // no error of the program's
    code = encodeWhole(present.data(), static_cast<std::int64_t>(present.nbytes()),
                       [this, &bits](std::int64_t bytes) {
                         bits = device_.blocks.allocate(static_cast<std::size_t>(bytes));
                         return bits.mutable_data();
                       });
  } catch (const std::exception&) {  // no memory for it: the value stays
    return;
  }
  if (!code) return;  // another kind of word than in the recorded step
  const StepLock::Freeing lock(lock_);
  value.noteCodec(follower_.plan()->values.codec[planned]);
  lock.giveUp(value.stored.setBits(*code, std::move(bits)));
  counters_.addCode(0, nanosecondsSince(start));
}

// Where it cannot be written the value stays, and is spilled or kept as others are.
void PlanDrops::offload(RunValue& value, const c10::Storage& present) {
  const TracedScope traced(trace_, TracedSpan::Kind::kSpill, nullptr, value.bytes);
  const auto start = Clock::now();
  const auto bytes = static_cast<std::int64_t>(present.nbytes());
  // The value's, and this one. Who else frees it knows of no copy that is under way.
  const bool ours_alone = present.use_count() <= 2 && device_.blocks.isOurs(present);
  const auto slot = spills_.write(
      present.data(), bytes,
      ours_alone ? SpillTarget::Afterwards::kFreed : SpillTarget::Afterwards::kWritten);
  if (!slot) {
    // Pinned memory may be full for a moment.
    if (device_.contents.onHost()) outage_.begin();
    return;
  }
  // Another thread of the program may have written meanwhile: a copy of some bytes of each kind.
  const bool torn =
      !ours_alone && device_.contents.onHost() && !spills_.equals(*slot, present.data());
  const StepLock::Freeing lock(lock_);
  if (torn || value.stored.slot()) {  // there is one meanwhile, under pressure
    spills_.release(*slot);
    return;
  }
  value.stored.addSlot(*slot);
  counters_.addOffload(bytes, nanosecondsSince(start));
}

// May what was fetched go, and the slot serve later passes? Not where the program wrote to it,
// which nothing but the bytes may tell, or may still do so.
bool PlanDrops::isStillOnHost(const StepLock::Held&, const RunValue& value) const {
  const c10::Storage& held = value.stored.held();
  const SpillTarget::Slot& slot = *value.stored.slot();
  if (!held) return true;  // it went before
  return held.use_count() == 1 && static_cast<std::int64_t>(held.nbytes()) == slot.bytes &&
         spills_.equals(slot, held.data());
}

}  // namespace ebbtide::plugin
