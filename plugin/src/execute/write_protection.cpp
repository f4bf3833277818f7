#include "execute/write_protection.hpp"

#include <optional>
#include <utility>

#include "base/thread_scopes.hpp"
#include "record/replay_errors.hpp"

namespace ebbtide::plugin {

// Called before a write that the plan may not know: replays to come that need these contents get a
// duplicate.
void WriteProtection::protect(ValueId id) {
  {
    const StepLock::Freeing lock(lock_);
    RunValue& value = values_.at(lock, id);
    if (value.producer == scheduler::kNone) value.noteMayBeWritten();
    const bool read_online =
        value.readers() > 0 && !(value.recomputable() && value.liveUses() == 0);
    if (!read_online && !kept_values_.readByPlan(lock, id)) return;
  }
  const LaneScope lane(device_.lanes, lane_);    // before the write, wherever that is asked for
  std::optional<StepLock::Restoring> restoring;  // replays that read it come first
  if (!lock_.restoresHere()) restoring.emplace(lock_);
  c10::Storage present;
  {
    const StepLock::Freeing lock(lock_);
    RunValue& value = values_.at(lock, id);
    present = value.stored.storage();
    // Freed since, and allocated again to be written: what was read is in the block that was kept.
    const bool resized = present && value.resized(present);
    if (resized) values_.endGuard(lock, value);
    if (resized || value.pristine() || value.stored.overwritten()) return;
  }
  if (!present) return;
  c10::Storage duplicate = unwrittenCopy(present);
  const StepLock::Freeing lock(lock_);
  values_.keepPristine(lock, values_.at(lock, id), std::move(duplicate));
}

// Without it what is read later would have other bytes: it goes over the budget if it must,
// counted.
c10::Storage WriteProtection::unwrittenCopy(const c10::Storage& present) {
  const TrialScope trial;  // no error of the program's
  try {
    return duplicateStorage(present);
  } catch (const c10::Error& error) {
    lines_.debug("a copy goes over the budget: " + messageOf(error));
  }
  const TrainedMemory::OverBudget over(trained_.memory());
  return duplicateStorage(present);
}

}  // namespace ebbtide::plugin
