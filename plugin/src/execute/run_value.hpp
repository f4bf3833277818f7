// RunValue: what a step keeps of a value. Each base or member is one state with its transitions;
// what is ValueTable's alone is private. Includes torch. Thread rule: the step's lock guards it.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <utility>

#include "execute/present.hpp"
#include "memory/block_watch.hpp"
#include "memory/known_bytes.hpp"
#include "memory/planned_life.hpp"
#include "memory/pristine_contents.hpp"
#include "memory/stored_value.hpp"
#include "memory/unseen_writes.hpp"
#include "memory/value_readers.hpp"
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

// As it was born, which does not change but for what is learnt of it.
class BornValue {
 public:
  BornValue(const at::Tensor& tensor, OpId made_by, bool others, scheduler::BlockId in)
      : producer(made_by),
        data(tensor.storage().data()),
        bytes(static_cast<std::int64_t>(tensor.storage().nbytes())),
        foreign(others),
        counter{WeakVersion(tensor.unsafeGetTensorImpl()->version_counter()),
                Present::versionOf(tensor)},
        block_(in) {}

  const OpId producer;     // kNone: a graph input
  const void* const data;  // the first copy's address and size: another one was resized
  const std::int64_t bytes;
  const bool foreign;  // not our memory: who writes it need not say so
  const Present::Counter counter;

  // Was nothing written through its version counter?
  bool intact() const { return !counter.moved(); }
  // Is that another place than it was born in?
  bool isElsewhere(const c10::Storage& present) const {
    return present.data() != data || static_cast<std::int64_t>(present.nbytes()) != bytes;
  }
  bool parameter() const noexcept { return parameter_; }
  scheduler::BlockId block() const noexcept { return block_; }
  ValueId previousEpoch() const noexcept { return previous_epoch_; }

  // A leaf uses this storage: it is a parameter. False: an op's result, or noted before.
  bool noteParameter() noexcept {
    return producer == scheduler::kNone && !std::exchange(parameter_, true);
  }
  // It was written over that one, in its block. False: refused, it has one.
  bool noteEpochAfter(ValueId previous, const BornValue& its) noexcept {
    if (previous_epoch_ != scheduler::kNone) return false;
    previous_epoch_ = previous;
    block_ = its.block_;
    return true;
  }

 private:
  scheduler::BlockId block_ = scheduler::kNone;
  ValueId previous_epoch_ = scheduler::kNone;
  bool parameter_ = false;
};

class RunValue : public BornValue,
                 public KnownBytes,
                 public PlannedLife,
                 public UnseenWrites,
                 private ValueReaders,
                 private PristineContents<c10::Storage> {
 public:
  using Uses = c10::SmallVector<UseId, 2>;

  // As BornValue. `touched`: the cursor's boundary.
  RunValue(const at::Tensor& tensor, OpId made_by, bool others, scheduler::BlockId in,
           std::uint64_t touched)
      : BornValue(tensor, made_by, others, in), KnownBytes(bytes), touched_(touched) {
    stored.begin(tensor.storage());
  }

  StoredValue<TorchStorages> stored;

  using PristineContents::isPristineFor, PristineContents::mayBeWritten,
      PristineContents::noteMayBeWritten, PristineContents::pristine;
  using ValueReaders::isNeeded, ValueReaders::liveUses, ValueReaders::readers,
      ValueReaders::recomputable;
  const Uses& uses() const noexcept { return uses_; }  // not released, as they were saved
  bool guarded() const noexcept { return block_watch_.guarded(); }
  OpId overwrittenBy() const noexcept { return overwritten_by_; }
  bool isKeptOnHost() const noexcept { return stored.kept() && stored.slot().has_value(); }
  const void* coveredIn(const c10::Storage& storage) const { return covered().in(storage.data()); }
  // Did the program free its contents, or have them elsewhere by now?
  bool resized(const c10::Storage& present) const {
    return !stored.replaced() && isElsewhere(present);
  }

  // --- made, saved or read, at this boundary of the cursor
  std::uint64_t touched() const noexcept { return touched_; }
  void touch(std::uint64_t boundary) noexcept { touched_ = boundary; }
  // --- what a copy as bits takes, if it can be made
  const Plan::Codec& codec() const noexcept { return codec_; }
  void noteCodec(const Plan::Codec& codec) noexcept { codec_ = codec; }
  void forgetCodec() noexcept { codec_ = {}; }  // until it is encoded in this step too

 private:
  friend class ValueTable;

  Plan::Codec codec_;
  Uses uses_;
  BlockWatch block_watch_;
  OpId overwritten_by_ = scheduler::kNone;
  std::uint64_t touched_;
  const c10::StorageImpl* restored_in_ = nullptr;  // an address, no reference
};

}  // namespace ebbtide::plugin
