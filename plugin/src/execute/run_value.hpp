// RunValue: what a step keeps of a value. Includes torch. Thread rule: the step's lock guards it.
#pragma once

#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <limits>
#include <optional>

#include "base/byte_range.hpp"
#include "device/checksum.hpp"
#include "device/fingerprint.hpp"
#include "memory/dropped_blocks.hpp"
#include "memory/stored_value.hpp"
#include "plan/plan.hpp"
#include "record/weak_references.hpp"

namespace ebbtide::plugin {

// What StoredValue asks of torch's storages. That a transition is out of order is said, and no
// error of the program's: its value is kept.
struct TorchStorages {
  using Strong = c10::Storage;
  using Weak = WeakStorage;

  static Weak none() { return noStorage(); }
  static Weak weakly(const Strong& storage) { return plugin::weakly(storage); }
  static Strong lock(const Weak& storage) { return Strong(storage.lock()); }
  static bool expired(const Weak& storage) { return storage.expired(); }
  static bool same(const Strong& one, const Strong& other) {
    return one.unsafeGetStorageImpl() == other.unsafeGetStorageImpl();
  }
  static void refused(const char* transition) noexcept;
};

// As it was born.
struct BornValue {
  OpId producer = scheduler::kNone;
  scheduler::BlockId block = scheduler::kNone;
  ValueId previous_epoch = scheduler::kNone;
  const void* data = nullptr;  // the first copy's address and size: another one was resized
  std::int64_t bytes = 0;
  WeakVersion version;
  std::uint32_t version_at_birth = 0;
  bool parameter = false;
  bool foreign = false;  // not our memory: who writes it need not say so

  // Was nothing written through its version counter?
  bool intact() const { return !version.enabled() || version.current() == version_at_birth; }
};

// What replays without a plan read of it (Evictor), and what is kept for them.
struct ReplayedValue {
  std::optional<Checksum> checksum;  // left when it was dropped first
  std::int32_t readers = 0;          // recomputable values whose replay reads it
  bool recomputable = false;         // the inputs of its op count it among their readers
  bool written = false;             // in place, by what may not have begun to: for inputs of a step
  DroppedBlocks::Ticket guard = 0;  // the block stays, whoever frees it; 0: none
  c10::Storage pristine;  // contents before an unplanned write, for replays that still need them
  // The first op that read a parameter after a write that no version counter shows: it read others.
  OpId pristine_until = std::numeric_limits<OpId>::max();
};

struct RunValue : BornValue, ReplayedValue {
  StoredValue<TorchStorages> stored;
  std::int32_t fetches_done = 0;  // of the plan's
  Plan::Codec codec;              // what that takes, if it can be done
  // What its op gave of its bytes. All else is compared with nothing, and read by nobody: else the
  // value is kept.
  ByteRange covered;
  std::optional<Fingerprint> print;  // of contents that may be dropped and computed again
  OpId overwritten_by = scheduler::kNone;
  std::int32_t live_uses = 0;
  c10::SmallVector<UseId, 2> uses;  // not released, in the order in which they were saved
  bool uninitialised = false;
  bool release_after_uses = false;
  bool made_again = false;          // by the plan, which has not dropped it since
  bool rejected = false;            // its replay differed from the original in this step
  DroppedBlocks::Ticket watch = 0;  // of droppedBlocks(); 0: none
  std::uint64_t touched = 0;        // the cursor's boundary when it was last made, saved or read

  // By uses, or by replays without a plan that read it.
  bool isNeeded() const noexcept { return live_uses > 0 || readers > 0; }
  bool isKeptOnHost() const noexcept { return stored.kept() && stored.slot().has_value(); }
  const void* coveredIn(const c10::Storage& storage) const { return covered.in(storage.data()); }
  // Did the program free its contents, or have them elsewhere by now?
  bool resized(const c10::Storage& present) const {
    return !stored.replaced() &&
           (present.data() != data || static_cast<std::int64_t>(present.nbytes()) != bytes);
  }
};

}  // namespace ebbtide::plugin
