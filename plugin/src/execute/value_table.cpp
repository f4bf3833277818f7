#include "execute/value_table.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/spares.hpp"

namespace ebbtide::plugin {

using scheduler::kNone;
using EventKind = scheduler::TraceEvent::Kind;

namespace {

// What an ended step's table leaves to the next one's.
Spares<AddressMap<Present>>& spareTables() {
  constexpr std::size_t kMostPlaces = std::size_t{1} << 15;
  static auto* const all = new Spares<AddressMap<Present>>(kMostPlaces);  // graphs may end late
  return *all;
}

}  // namespace

ValueTable::ValueTable(const RunParts& run, const TrainingDevice& device,
                       std::shared_ptr<EventLog> log, const OpLog& ops, const Verifier& verifier,
                       TrainedLeaves& leaves)
    : allowed_(run.drops),
      trained_(run.trained),
      spills_(run.spills),
      device_(device),
      log_(std::move(log)),
      ops_(ops),
      verifier_(verifier),
      leaves_(leaves),
      present_(spareTables().take()) {}

ValueTable::~ValueTable() {
  for (RunValue& value : values_) {
    if (const auto& slot = value.stored.slot()) spills_.release(*slot);
    void* const block = value.block_watch_.endGuard(value.data);
    if (block == nullptr) continue;
    allowed_.spillOnly(kFreedInputs);
    const c10::Storage freed = device_.blocks.adopt(block, static_cast<std::size_t>(value.bytes));
  }
  spareTables().giveBack(std::move(present_));
}

// ---------------------------------------------------------------------------------------------
// what a storage holds

ValueId ValueTable::find(const Held&, const at::Tensor& tensor) const {
  const Present* const found = present_.find(tensor.storage().unsafeGetStorageImpl());
  if (found == nullptr || found->storage.expired()) return kNone;
  const Present::Counter* const counter = found->counterOf(tensor);
  const bool known = counter != nullptr && counter->known == Present::versionOf(tensor);
  return known ? found->value : kNone;
}

Present* ValueTable::presentIn(const Held&, const at::Tensor& tensor) {
  Present* const found = present_.find(tensor.storage().unsafeGetStorageImpl());
  return found == nullptr || found->storage.expired() ? nullptr : found;
}

ValueId ValueTable::add(const Held& lock, const at::Tensor& tensor, OpId producer,
                        std::uint64_t touched) {
  const ValueId id = next();
  const void* const data = tensor.storage().data();
  const bool foreign = !device_.blocks.isOurs(tensor.storage());
  const bool logged = log_ && !foreign;
  const scheduler::BlockId block = logged ? log_->blockAt(data, trained_.memory()) : kNone;
  const RunValue& value = values_.emplace_back(tensor, producer, foreign, block, touched);
  // Ours again, by way of NumPy: counted under its own name.
  if (foreign && !trained_.host().owns(data)) uncounted_.add(tensor.storage());
  if (producer == kNone) noteTrained(lock, id, tensor);
  present_.put(tensor.storage().unsafeGetStorageImpl(),
               Present{weakly(tensor.storage()), id, {value.counter}});
  return id;
}

void ValueTable::noteTrained(const Held& lock, ValueId id, const at::Tensor& tensor) {
  const at::TensorBase* const leaf = TrainedLeaves::leafOf(tensor);
  if (leaf == nullptr) return;
  const bool another_part = !values_[id].noteParameter();
  if (another_part && leaves_.knows(lock, *leaf)) return;
  leaves_.add(lock, *leaf, tensor);
}

void ValueTable::noteRestored(const Freeing& lock, ValueId id, const c10::Storage& storage,
                              Present::Counter counter) {
  RunValue& value = values_[id];
  if (!value.stored.replaced()) return;
  c10::Storage present = value.stored.storage();
  const bool is_present = TorchStorages::same(present, storage);
  lock.giveUp(std::move(present));
  if (!is_present) return;
  const c10::StorageImpl* const now = storage.unsafeGetStorageImpl();
  const c10::StorageImpl* const before = std::exchange(value.restored_in_, now);
  // The one before may live on with the program: what is saved of it is another value's.
  if (before != nullptr && before != now) {
    const Present* const old = present_.find(before);
    if (old != nullptr && old->value == id) present_.erase(before);
  }
  Present* const known = present_.find(now);
  if (known != nullptr && known->value == id && !known->storage.expired()) {
    if (known->counterOf(counter.version.identity()) == nullptr) known->add(counter);
    return;
  }
  present_.put(now, Present{weakly(storage), id, {std::move(counter)}});
}

// ---------------------------------------------------------------------------------------------
// writes

bool ValueTable::overwrite(const Freeing& lock, ValueId id, OpId by) {
  RunValue& value = values_[id];
  if (value.stored.overwritten()) return false;
  endWatch(lock, value);
  // Until somebody names what is there now, nobody's.
  if (value.stored.replaced()) {  // the copy is not the program's storage
    present_.eraseIf([id](const Present& present) { return present.value == id; });
  } else if (c10::Storage storage = value.stored.copy()) {
    const Present* const found = present_.find(storage.unsafeGetStorageImpl());
    if (found != nullptr && found->value == id) present_.erase(storage.unsafeGetStorageImpl());
    lock.giveUp(std::move(storage));
  }
  value.overwritten_by_ = by;
  if (value.pristine()) endGuard(lock, value);
  // Of one in use PyTorch raises an error, or (writes through .data) reads what is there now: so do
  // we, also where the plan goes on and drops it.
  const bool in_use = value.liveUses() > 0;
  lock.giveUp(value.stored.overwrite(in_use));
  if (in_use) giveUpCopies(lock, value);
  return in_use;
}

bool ValueTable::passOn(const Freeing& lock, ValueId overwritten, ValueId successor,
                        const c10::Storage& storage) {
  RunValue& old = values_[overwritten];
  const bool same = TorchStorages::same(old.stored.held(), storage);
  if (!old.stored.stale() || !same || old.liveUses() == 0) return false;
  c10::Storage last = old.stored.passOn(successor);
  if (!last) return false;
  lock.giveUp(std::move(last));
  RunValue& born = values_[successor];
  old.passUsesTo(born);
  born.stored.keep();  // they read the storage, whoever writes it next
  return true;
}

ValueId ValueTable::latest(const Held&, ValueId id) {
  if (id == kNone) return kNone;
  const auto successor = [this](ValueId value) { return values_[value].stored.successor(); };
  for (ValueId next = successor(id); next != kNone; next = successor(id)) {
    // Of many parts written one by one: the next search is shorter.
    if (successor(next) != kNone) values_[id].stored.passFurther(successor(next));
    id = next;
  }
  return id;
}

// ---------------------------------------------------------------------------------------------
// who reads it

// Out of order: the value is kept.
bool ValueTable::refuse(RunValue& value, const char* transition) {
  value.stored.keep();
  TorchStorages::refused(transition);
  return false;
}

void ValueTable::addUse(const Held&, ValueId value, UseId use) {
  values_[value].uses_.push_back(use);
  values_[value].beginUse();
}

void ValueTable::forgetUse(const Held&, ValueId value, UseId use) {
  auto& uses = values_[value].uses_;
  const auto found = std::find(uses.rbegin(), uses.rend(), use);  // the last one goes first
  if (found != uses.rend()) uses.erase(std::prev(found.base()));
}

bool ValueTable::endUses(const Held&, ValueId id, std::size_t uses) {
  RunValue& value = values_[id];
  if (!value.endUses(static_cast<std::int32_t>(uses))) return refuse(value, "end a use");
  return value.liveUses() == 0;
}

void ValueTable::addReader(const Held&, ValueId value, const std::vector<ValueId>& inputs) {
  if (!values_[value].beginRecomputable()) {
    refuse(values_[value], "compute again");
    return;
  }
  for (const ValueId input : inputs) values_[input].beginReader();
}

std::vector<ValueId> ValueTable::endReader(const Held&, ValueId value,
                                           const std::vector<ValueId>& inputs) {
  std::vector<ValueId> unread;
  if (!values_[value].endRecomputable()) {
    refuse(values_[value], "compute no more");
    return unread;
  }
  for (const ValueId input : inputs) {
    RunValue& read = values_[input];
    if (!read.endReader()) {
      refuse(read, "end a reader");
    } else if (read.readers() == 0) {
      unread.push_back(input);
    }
  }
  return unread;
}

void ValueTable::forgetReaders(const Held&, ValueId value) {
  values_[value].forgetReplays();
}

// ---------------------------------------------------------------------------------------------
// what we hold

void ValueTable::holdPresent(const Freeing& lock, RunValue& value, const c10::Storage& storage) {
  endWatch(lock, value);
  if (value.stored.held() && !TorchStorages::same(value.stored.held(), storage))
    lock.giveUp(value.stored.take());
  value.stored.hold(storage);
}

void ValueTable::giveUp(const Freeing& lock, RunValue& value) {
  lock.giveUp(value.stored.release());
}

void ValueTable::giveUpCode(const Freeing& lock, RunValue& value) {
  lock.giveUp(value.stored.takeBits());
}

void ValueTable::giveUpSlot(const Held&, RunValue& value) {
  if (const auto slot = value.stored.takeSlot()) spills_.release(*slot);
}

void ValueTable::giveUpCopies(const Freeing& lock, RunValue& value) {
  giveUpCode(lock, value);
  giveUpSlot(lock, value);
}

void ValueTable::keepPristine(const Freeing& lock, RunValue& value, c10::Storage&& contents) {
  lock.giveUp(value.keep(std::move(contents), ops_.next()));
}

void ValueTable::giveUpPristine(const Freeing& lock, RunValue& value) {
  lock.giveUp(value.take());
}

// ---------------------------------------------------------------------------------------------
// blocks that the program may free, or write unseen

// A dropped value whose storage the program still holds: what something unseen writes there must
// not be lost with it.
void ValueTable::watchContents(const Held& lock, ValueId id) {
  RunValue& value = values_[id];
  if (value.block_watch_.watched() || value.liveUses() == 0) return;
  if (value.stored.overwritten() || value.stored.replaced()) return;
  if (!value.print() || value.foreign || value.bytes == 0) return;
  if (device_.contents.onHost()) {
    value.block_watch_.watch(value.data, value.covered(), *value.print());
    return;
  }
  if (!value.stored.awaitLetGo()) return;
  late_drops_.push_back(id);
  noteShared(lock, id);
}

// Takes the contents over if they were written and the program has let go of them.
void ValueTable::endWatch(const Freeing& lock, RunValue& value) {
  void* const block = value.block_watch_.endWatch(value.data);
  if (block == nullptr) return;
  c10::Storage storage = device_.blocks.adopt(block, static_cast<std::size_t>(value.bytes));
  const bool adopted =
      value.liveUses() > 0 && !value.stored.held() && value.stored.adoptWritten(std::move(storage));
  if (!adopted) lock.giveUp(std::move(storage));
}

bool ValueTable::guard(const Held&, RunValue& value) {
  return value.guarded() || value.block_watch_.guard(value.data);
}

void ValueTable::endGuard(const Freeing& lock, RunValue& value) {
  void* const block = value.block_watch_.endGuard(value.data);
  if (block == nullptr) return;
  allowed_.spillOnly(kFreedInputs);
  c10::Storage storage = device_.blocks.adopt(block, static_cast<std::size_t>(value.bytes));
  if (value.isNeeded() && !value.pristine()) {
    keepPristine(lock, value, std::move(storage));
  } else {
    lock.giveUp(std::move(storage));
  }
}

void ValueTable::dropLate(const Freeing& lock, bool off_plan) {
  std::erase_if(late_drops_, [&](ValueId id) {
    RunValue& value = values_[id];
    const bool awaited =
        value.stored.awaited() && !off_plan && !value.stored.kept() && !value.stored.overwritten();
    if (awaited && value.stored.held().use_count() > 1) return false;
    value.stored.endAwait();
    if (!awaited) return true;
    if (value.liveUses() > 0 && verifier_.differsFromBirth(value)) {
      value.stored.keepWritten();
      return true;
    }
    logLastReference(lock, id);
    giveUp(lock, value);
    return true;
  });
}

// ---------------------------------------------------------------------------------------------
// when the program lets go

// The program let go of a held value when ours is the only reference left.
void ValueTable::logLastReferences(const Held& lock) {
  std::erase_if(shared_with_program_, [&](ValueId id) {
    const RunValue& value = values_[id];
    if (!value.stored.held()) return true;
    if (value.stored.held().use_count() > 1) return false;
    logLastReference(lock, id);
    return true;
  });
}

void ValueTable::logLastReference(const Held&, ValueId id) {
  if (!values_[id].stored.noteLetGo()) return;
  if (log_) log_->add(EventKind::kLastReference, id);
}

void ValueTable::noteLastReference(const Held& lock, ValueId id) {
  if (values_[id].stored.held().use_count() == 1) logLastReference(lock, id);
}

void ValueTable::addTo(const Held&, scheduler::Trace& trace) const {
  for (const RunValue& value : values_) {
    const OpId by = value.overwrittenBy();
    trace.values.push_back({value.producer, value.block(), value.previousEpoch(),
                            by < ops_.next() ? by : kNone, value.parameter(),
                            value.codec().encoded_bytes, value.codec().codec_ns});
  }
}

}  // namespace ebbtide::plugin
