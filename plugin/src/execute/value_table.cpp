#include "execute/value_table.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "memory/dropped_blocks.hpp"

namespace ebbtide::plugin {

using scheduler::kNone;
using EventKind = scheduler::TraceEvent::Kind;

ValueTable::~ValueTable() {
  for (RunValue& value : values_) {
    if (const auto& slot = value.stored.slot()) session_.spills().release(*slot);
    if (value.guard == 0) continue;
    void* const block = droppedBlocks().withdraw(value.data, value.guard);
    if (block == nullptr) continue;
    session_.spillOnly(kFreedInputs);
    const c10::Storage freed = device_.blocks.adopt(block, static_cast<std::size_t>(value.bytes));
  }
  spareTables().giveBack(std::move(present_));
}

Spares<AddressMap<Present>>& ValueTable::spareTables() {
  constexpr std::size_t kMostPlaces = std::size_t{1} << 15;
  static auto* const all = new Spares<AddressMap<Present>>(kMostPlaces);  // graphs may end late
  return *all;
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

const RunValue* ValueTable::lastIn(const Held&, const at::Tensor& tensor) const {
  const Present* const found = present_.find(tensor.storage().unsafeGetStorageImpl());
  return found == nullptr ? nullptr : &values_[found->value];
}

ValueId ValueTable::add(const Held& lock, const at::Tensor& tensor, OpId producer,
                        std::uint64_t touched) {
  const ValueId id = next();
  RunValue& value = values_.emplace_back();
  value.producer = producer;
  value.data = tensor.storage().data();
  value.bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  value.covered = {0, value.bytes};
  value.foreign = !device_.blocks.isOurs(tensor.storage());
  // Ours again, by way of NumPy: counted under its own name.
  if (value.foreign && !session_.hostMemory().owns(value.data)) uncounted_.add(tensor.storage());
  value.touched = touched;
  if (producer == kNone) noteTrained(lock, id, tensor);
  value.version = WeakVersion(tensor.unsafeGetTensorImpl()->version_counter());
  value.version_at_birth = Present::versionOf(tensor);
  value.stored.begin(tensor.storage());
  if (log_ && !value.foreign) {
    value.block = log_->blockAt(tensor.storage().data(), session_.memory());
  }
  present_.put(tensor.storage().unsafeGetStorageImpl(),
               Present{weakly(tensor.storage()), id, {{value.version, value.version_at_birth}}});
  return id;
}

void ValueTable::noteTrained(const Held& lock, ValueId id, const at::Tensor& tensor) {
  const at::TensorBase* const leaf = TrainedLeaves::leafOf(tensor);
  if (leaf == nullptr) return;
  const bool another_part = std::exchange(values_[id].parameter, true);
  if (another_part && leaves_.knows(lock, *leaf)) return;
  leaves_.add(lock, *leaf, tensor);
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
  value.overwritten_by = by;
  if (value.pristine) endGuard(lock, value);
  // Of one in use PyTorch raises an error, or (writes through .data) reads what is there now: so do
  // we, also where the plan goes on and drops it.
  const bool in_use = value.live_uses > 0;
  lock.giveUp(value.stored.overwrite(in_use));
  if (in_use) giveUpCopies(lock, value);
  return in_use;
}

bool ValueTable::passOn(const Freeing& lock, ValueId overwritten, ValueId successor,
                        const c10::Storage& storage) {
  RunValue& old = values_[overwritten];
  const bool same = TorchStorages::same(old.stored.held(), storage);
  if (!old.stored.stale() || !same || old.live_uses == 0) return false;
  c10::Storage last = old.stored.passOn(successor);
  if (!last) return false;
  lock.giveUp(std::move(last));
  RunValue& born = values_[successor];
  born.live_uses += std::exchange(old.live_uses, 0);
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

void ValueTable::addUse(const Held&, ValueId value, UseId use) {
  values_[value].uses.push_back(use);
  ++values_[value].live_uses;
}

void ValueTable::forgetUse(const Held&, ValueId value, UseId use) {
  auto& uses = values_[value].uses;
  const auto found = std::find(uses.rbegin(), uses.rend(), use);  // the last one goes first
  if (found != uses.rend()) uses.erase(std::prev(found.base()));
}

std::int32_t ValueTable::endUses(const Held&, ValueId value, std::int32_t uses) {
  return values_[value].live_uses -= uses;
}

void ValueTable::addReader(const Held&, ValueId value, const std::vector<ValueId>& inputs) {
  values_[value].recomputable = true;
  for (const ValueId input : inputs) ++values_[input].readers;
}

std::vector<ValueId> ValueTable::endReader(const Held&, ValueId value,
                                           const std::vector<ValueId>& inputs) {
  values_[value].recomputable = false;
  std::vector<ValueId> unread;
  for (const ValueId input : inputs) {
    if (--values_[input].readers == 0) unread.push_back(input);
  }
  return unread;
}

void ValueTable::forgetReaders(const Held&, ValueId value) {
  values_[value].readers = 0;
  values_[value].recomputable = false;
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
  if (const auto slot = value.stored.takeSlot()) session_.spills().release(*slot);
}

void ValueTable::giveUpCopies(const Freeing& lock, RunValue& value) {
  giveUpCode(lock, value);
  giveUpSlot(lock, value);
}

void ValueTable::giveUpPristine(const Freeing& lock, RunValue& value) {
  lock.giveUp(std::exchange(value.pristine, c10::Storage()));
}

// ---------------------------------------------------------------------------------------------
// blocks that the program may free, or write unseen

// A dropped value whose storage the program still holds: what something unseen writes there must
// not be lost with it.
void ValueTable::watchContents(const Held& lock, ValueId id) {
  RunValue& value = values_[id];
  if (value.watch != 0 || value.live_uses == 0) return;
  if (value.stored.overwritten() || value.stored.replaced()) return;
  if (!value.print || value.foreign || value.bytes == 0) return;
  if (device_.contents.onHost()) {
    value.watch = droppedBlocks().watch(value.data, value.covered, *value.print);
    return;
  }
  if (!value.stored.awaitLetGo()) return;
  late_drops_.push_back(id);
  noteShared(lock, id);
}

// Takes the contents over if they were written and the program has let go of them.
void ValueTable::endWatch(const Freeing& lock, RunValue& value) {
  if (value.watch == 0) return;
  void* const block = droppedBlocks().withdraw(value.data, std::exchange(value.watch, 0));
  if (block == nullptr) return;
  c10::Storage storage = device_.blocks.adopt(block, static_cast<std::size_t>(value.bytes));
  const bool adopted =
      value.live_uses > 0 && !value.stored.held() && value.stored.adoptWritten(std::move(storage));
  if (!adopted) lock.giveUp(std::move(storage));
}

void ValueTable::endGuard(const Freeing& lock, RunValue& value) {
  if (value.guard == 0) return;
  void* const block = droppedBlocks().withdraw(value.data, std::exchange(value.guard, 0));
  if (block == nullptr) return;
  session_.spillOnly(kFreedInputs);
  c10::Storage storage = device_.blocks.adopt(block, static_cast<std::size_t>(value.bytes));
  if (value.isNeeded() && !value.pristine) {
    value.pristine = std::move(storage);
    value.pristine_until = ops_.next();
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
    if (value.live_uses > 0 && verifier_.differsFromBirth(value)) {
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
    trace.values.push_back({value.producer, value.block, value.previous_epoch,
                            value.overwritten_by < ops_.next() ? value.overwritten_by : kNone,
                            value.parameter, value.codec.encoded_bytes, value.codec.codec_ns});
  }
}

}  // namespace ebbtide::plugin
