// ValueTable: a step's values: which storage holds which contents, what we hold of them, who reads
// them, and when the program releases them. It alone makes values, counts their readers and keeps
// an eye on their blocks. Who holds the step's lock changes the rest of one by its transitions
// (RunValue). Includes torch.
//
// Values are storage contents between two writes. A value's copy is the storage that has them now:
//
//   born ─► first copy (the program's own storage) ─► dropped ─► replayed or fetched copy ─►
//   dropped …
//            held: we keep it alive            weak: the program may still keep it alive
//
// A dropped value leaves its fingerprint: a replay that gives other contents is an error, never a
// wrong number. Why a value stays or goes is its callers'.
//
// Thread rule: all but reading a value that the caller alone has takes the step's lock.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/address_map.hpp"
#include "base/chunked_list.hpp"
#include "device/torch/training_device.hpp"
#include "execute/op_log.hpp"
#include "execute/present.hpp"
#include "execute/run_parts.hpp"
#include "execute/run_value.hpp"
#include "execute/step_lock.hpp"
#include "execute/trained_leaves.hpp"
#include "execute/uncounted_storages.hpp"
#include "execute/verifier.hpp"
#include "record/log/event_log.hpp"

namespace ebbtide::plugin {

class ValueTable {
 public:
  using Held = StepLock::Held;
  using Freeing = StepLock::Freeing;

  // `log`: nullptr: the step is not recorded.
  ValueTable(const RunParts& run, const TrainingDevice& device, std::shared_ptr<EventLog> log,
             const OpLog& ops, const Verifier& verifier, TrainedLeaves& leaves);
  ~ValueTable();  // gives back slots, and blocks that were guarded
  ValueTable(const ValueTable&) = delete;
  ValueTable& operator=(const ValueTable&) = delete;

  ValueId next() const { return static_cast<ValueId>(values_.size()); }
  const RunValue& operator[](ValueId value) const { return values_[value]; }
  RunValue& at(const Held&, ValueId value) { return values_[value]; }

  // --- what a storage holds
  ValueId find(const Held&, const at::Tensor& tensor) const;  // kNone: contents that are not known
  Present* presentIn(const Held&, const at::Tensor& tensor);  // nullptr: nothing that is known
  // `producer` kNone: a graph input. `touched`: the cursor's boundary.
  ValueId add(const Held&, const at::Tensor& tensor, OpId producer, std::uint64_t touched);
  void noteTrained(const Held&, ValueId source, const at::Tensor& tensor);
  // The storage replaced the value's first one, and a tensor with that counter looks at it. What is
  // saved of the tensor is a use of the value.
  void noteRestored(const Freeing&, ValueId value, const c10::Storage& storage,
                    Present::Counter counter);

  // --- writes
  // True: it is in use, whose uses read what is there now.
  bool overwrite(const Freeing&, ValueId value, OpId by);
  // What was written over while in use and what is there now are one storage: the latter alone
  // holds it, or none of the two could be spilled. False: it is not so.
  bool passOn(const Freeing&, ValueId overwritten, ValueId successor, const c10::Storage& storage);
  ValueId latest(const Held&, ValueId value);  // that uses of it read now

  // --- who reads it: saved uses, and replays without a plan
  void addUse(const Held&, ValueId value, UseId use);
  void forgetUse(const Held&, ValueId value, UseId use);  // it may be another value's by now
  // True: these were the last.
  bool endUses(const Held&, ValueId value, std::size_t uses);
  // Its op may run again for it, and reads `inputs` then.
  void addReader(const Held&, ValueId value, const std::vector<ValueId>& inputs);
  // No more: gives the inputs that nothing else would read.
  std::vector<ValueId> endReader(const Held&, ValueId value, const std::vector<ValueId>& inputs);
  void forgetReaders(const Held&, ValueId value);  // no op runs again any more

  // --- what we hold
  // What the program has now. Where it put another block into its storage, what endWatch() takes
  // over is of the one before.
  void holdPresent(const Freeing&, RunValue& value, const c10::Storage& storage);
  void giveUp(const Freeing&, RunValue& value);
  void giveUpCode(const Freeing&, RunValue& value);
  void giveUpSlot(const Held&, RunValue& value);
  void giveUpCopies(const Freeing&, RunValue& value);  // bits, and what is on the host
  // What it had before a write, for replays that ops before the next one are for.
  void keepPristine(const Freeing&, RunValue& value, c10::Storage&& contents);
  void giveUpPristine(const Freeing&, RunValue& value);

  // --- blocks that the program may free, or write unseen
  void watchContents(const Held&, ValueId value);
  void endWatch(const Freeing&, RunValue& value);
  bool guard(const Held&, RunValue& value);  // false: something else has an eye on its block
  void endGuard(const Freeing&, RunValue& value);
  // Drops what was awaited and the program has let go of, unless it was written meanwhile.
  void dropLate(const Freeing&, bool off_plan);

  // --- when the program lets go
  void noteShared(const Held&, ValueId value) {  // held; its last reference is to be noted
    if (log_) shared_with_program_.push_back(value);
  }
  void logLastReferences(const Held&);
  void logLastReference(const Held&, ValueId value);
  void noteLastReference(const Held&, ValueId value);  // as that, if ours is the last

  // The most bytes of others' memory that its tensors lay in at a time.
  std::int64_t uncountedBytes(const Held&) const { return uncounted_.mostBytes(); }
  void addTo(const Held&, scheduler::Trace& trace) const;

 private:
  static constexpr const char* kFreedInputs = "the program frees what its operations have read";

  static bool refuse(RunValue& value, const char* transition);

  DropsAllowed& allowed_;
  TrainedMemory& trained_;
  SpillTarget& spills_;
  const TrainingDevice& device_;
  const std::shared_ptr<EventLog> log_;
  const OpLog& ops_;
  const Verifier& verifier_;
  TrainedLeaves& leaves_;

  ChunkedList<RunValue> values_;
  AddressMap<Present> present_;  // by the storage
  std::vector<ValueId> shared_with_program_;
  std::vector<ValueId> late_drops_;
  UncountedStorages uncounted_;
};

}  // namespace ebbtide::plugin
