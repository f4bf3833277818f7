// StepRun's values: which storage holds which contents, what we hold of them, and who may write
// them.
#include <c10/core/StorageImpl.h>

#include "base/thread_scopes.hpp"
#include "execute/step_run_state.hpp"
#include "memory/dropped_blocks.hpp"
#include "record/replay_errors.hpp"

namespace ebbtide::plugin {

using EventKind = scheduler::TraceEvent::Kind;

ValueId StepRun::findValue(const at::Tensor& tensor) {
  std::lock_guard lock(mutex_);
  return presentValue(tensor);
}

ValueId StepRun::presentValue(const at::Tensor& tensor) const {
  const auto found = present_.find(tensor.storage().unsafeGetStorageImpl());
  if (found == present_.end() || found->second.storage.expired()) return kNone;
  const Present::Counter* const counter = found->second.counterOf(tensor);
  const bool known = counter != nullptr && counter->known == Present::versionOf(tensor);
  return known ? found->second.value : kNone;
}

ValueId StepRun::sourceValue(const at::Tensor& tensor) {
  ValueId replaced = kNone;
  bool intact = false;
  {
    std::lock_guard lock(mutex_);
    if (const ValueId value = presentValue(tensor); value != kNone) return value;
    const auto found = present_.find(tensor.storage().unsafeGetStorageImpl());
    if (found != present_.end() && !found->second.storage.expired()) {
      Present& present = found->second;
      replaced = present.value;
      intact = present.untouched();
      // A version counter of its own: `.data` of what we know, or another part of a source, which
      // may have been written before this step. Of what is made in it any write would be known.
      const std::uint32_t version = Present::versionOf(tensor);
      const bool source = values_[replaced].producer == kNone;
      if (intact && present.counterOf(tensor) == nullptr && (source || version == 0)) {
        present.add({WeakVersion(tensor.unsafeGetTensorImpl()->version_counter()), version});
        if (source) noteTrained(replaced, tensor);
        return replaced;
      }
    }
  }
  if (intact) protect(replaced);
  const Locked lock(*this);
  if (replaced != kNone) overwrite(replaced, static_cast<OpId>(ops_.size()));
  const ValueId source = addValue(tensor, kNone, 0);
  if (replaced != kNone) passOn(replaced, source, tensor.storage());
  return source;
}

ValueId StepRun::addValue(const at::Tensor& tensor, OpId producer, int output) {
  const auto id = static_cast<ValueId>(values_.size());
  follower_.addValue(producer);
  RunValue& value = values_.emplace_back();
  value.producer = producer;
  value.output = output;
  value.data = tensor.storage().data();
  value.bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  value.covered = {0, value.bytes};
  value.foreign = !device_.blocks.isOurs(tensor.storage());
  // Ours again, by way of NumPy: counted under its own name.
  if (value.foreign && !session_.hostMemory().owns(value.data)) uncounted_.add(tensor.storage());
  value.touched = follower_.cursor().boundary();
  if (producer == kNone) noteTrained(id, tensor);
  value.version = WeakVersion(tensor.unsafeGetTensorImpl()->version_counter());
  value.version_at_birth = Present::versionOf(tensor);
  value.stored.begin(tensor.storage());
  if (options_.log && !value.foreign) {
    value.block = options_.log->blockAt(tensor.storage().data(),
                                        session_.memory().blockBytes(tensor.storage().data()));
  }
  present_.insert_or_assign(
      tensor.storage().unsafeGetStorageImpl(),
      Present{weakly(tensor.storage()), id, {{value.version, value.version_at_birth}}});
  holdIfKept(id, tensor.storage());
  return id;
}

// The leaf that is trained in it, or that it is a view of; nullptr: it is none.
const at::TensorBase* StepRun::trainedLeaf(const at::Tensor& tensor) {
  const bool view_of_leaf =
      tensor.is_view() && tensor._base().is_leaf() && tensor._base().requires_grad();
  if (view_of_leaf) return &tensor._base();
  return tensor.is_leaf() && tensor.requires_grad() ? &tensor : nullptr;
}

// Called with mutex_ held.
void StepRun::noteTrained(ValueId id, const at::Tensor& tensor) {
  const at::TensorBase* const leaf = trainedLeaf(tensor);
  if (leaf == nullptr) return;
  const c10::TensorImpl& trained = *leaf->unsafeGetTensorImpl();
  const auto same = [&trained](const Trained& known) { return known.is(trained); };
  const bool another_part = std::exchange(values_[id].parameter, true);
  if (another_part && std::any_of(parameters_.begin(), parameters_.end(), same)) return;
  WeakVersion version(tensor.unsafeGetTensorImpl()->version_counter());
  parameters_.push_back(Trained{id,
                                &trained,
                                {std::move(version), Present::versionOf(tensor)},
                                weakly(tensor.storage()),
                                tensor.storage().unsafeGetStorageImpl(),
                                leaf->nbytes() < tensor.storage().nbytes()});
}

bool StepRun::readsAnotherPart(c10::ArrayRef<const c10::IValue> inputs) const {
  std::lock_guard lock(mutex_);
  const auto is_part = [](const Trained& trained) { return trained.is_part; };
  if (!std::all_of(parameters_.begin(), parameters_.end(), is_part)) return false;
  bool known = false, another = false;
  forEachTensor(inputs, [&](int, int, const at::Tensor& tensor) {
    const at::TensorBase* const leaf = isPlain(tensor) ? trainedLeaf(tensor) : nullptr;
    if (leaf == nullptr) return;
    for (const Trained& trained : parameters_) {
      known = known || trained.is(*leaf->unsafeGetTensorImpl());
      another = another || trained.now == tensor.storage().unsafeGetStorageImpl();
    }
  });
  return another && !known;
}

void StepRun::noteOtherData(const c10::TensorImpl& tensor) {
  std::lock_guard lock(mutex_);
  for (Trained& trained : parameters_) {
    if (trained.is(tensor)) trained.now = tensor.unsafe_storage().unsafeGetStorageImpl();
  }
}

// Without a plan a value is held by its uses alone; with one, as the plan says, and by the uses
// that the plan makes nothing again for.
void StepRun::holdIfKept(ValueId id, const c10::Storage& storage) {
  RunValue& value = values_[id];
  if (value.stored.held() || value.stored.overwritten()) return;
  const bool by_plan = !follower_.offPlan() && follower_.planned(id, &Plan::hold) &&
                       !value.release_after_uses && !copiedByPlan(id, value);
  const bool by_use = value.live_uses > 0 && (follower_.keepsAll() || value.stored.kept() ||
                                              !follower_.planned(id, &Plan::restored_later));
  if (!by_plan && !by_use) return;
  if (!by_plan && !follower_.keepsAll()) value.release_after_uses = true;
  endWatch(value);
  value.stored.hold(storage);
  if (options_.log && !value.parameter) shared_with_program_.push_back(id);
}

void StepRun::giveUp(RunValue& value) {
  if (c10::Storage last = value.stored.release()) given_up_.push_back(std::move(last));
}

void StepRun::keepForeign(std::vector<c10::Storage>& given_up) {
  std::vector<c10::Storage> ours;
  for (c10::Storage& storage : given_up) {
    const bool in_python = storage.unsafeGetStorageImpl()->pyobj_slot()->load_pyobj() != nullptr;
    (device_.blocks.isOurs(storage) && !in_python ? ours : given_up_).push_back(std::move(storage));
  }
  given_up = std::move(ours);
}

// A dropped value whose storage the program still holds: what something unseen writes there must
// not be lost with it.
void StepRun::watchContents(ValueId id) {
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
  if (options_.log) shared_with_program_.push_back(id);
}

// Called with mutex_ held. Drops what the program has let go of, unless it was written meanwhile.
void StepRun::dropLate() {
  std::erase_if(late_drops_, [this](ValueId id) {
    RunValue& value = values_[id];
    const bool awaited = value.stored.awaited() && !follower_.offPlan() && !value.stored.kept() &&
                         !value.stored.overwritten();
    if (awaited && value.stored.held().use_count() > 1) return false;
    value.stored.endAwait();
    if (!awaited) return true;
    if (value.live_uses > 0 && verifier_.differsFromBirth(value)) {
      value.stored.keepWritten();
      return true;
    }
    noteNaturalDeath(id, value);
    giveUp(value);
    return true;
  });
}

// Takes the contents over if they were written and the program has let go of them.
void StepRun::endWatch(RunValue& value) {
  if (value.watch == 0) return;
  void* const block = droppedBlocks().withdraw(value.data, std::exchange(value.watch, 0));
  if (block == nullptr) return;
  c10::Storage storage = device_.blocks.adopt(block, static_cast<std::size_t>(value.bytes));
  const bool adopted =
      value.live_uses > 0 && !value.stored.held() && value.stored.adoptWritten(std::move(storage));
  if (!adopted) given_up_.push_back(std::move(storage));
}

void StepRun::overwrite(ValueId id, OpId by) {
  RunValue& value = values_[id];
  if (value.stored.overwritten()) return;
  endWatch(value);
  // Until somebody names what is there now, nobody's.
  if (value.stored.replaced()) {  // the copy is not the program's storage
    std::erase_if(present_, [id](const auto& entry) { return entry.second.value == id; });
  } else if (c10::Storage storage = value.stored.copy()) {
    const auto found = present_.find(storage.unsafeGetStorageImpl());
    if (found != present_.end() && found->second.value == id) present_.erase(found);
    given_up_.push_back(std::move(storage));
  }
  value.overwritten_by = by;
  if (value.pristine) endGuard(value);
  // Of one in use PyTorch raises an error, or (writes through .data) reads what is there now: so do
  // we, also where the plan goes on and drops it.
  const bool in_use = value.live_uses > 0;
  if (c10::Storage last = value.stored.overwrite(in_use)) given_up_.push_back(std::move(last));
  if (!in_use) return;
  giveUpCopies(value);
  if (value.producer != kNone) ops_[value.producer].kept_because = "written over while in use";
}

// Called with mutex_ held. What was written over while in use and what is there now are one
// storage: the latter alone holds it, or none of the two could be spilled.
void StepRun::passOn(ValueId overwritten, ValueId successor, const c10::Storage& storage) {
  RunValue& old = values_[overwritten];
  const bool same = TorchStorages::same(old.stored.held(), storage);
  if (!old.stored.stale() || !same || old.live_uses == 0) return;
  c10::Storage last = old.stored.passOn(successor);
  if (!last) return;
  given_up_.push_back(std::move(last));
  RunValue& born = values_[successor];
  born.live_uses += std::exchange(old.live_uses, 0);
  kept_graphs_.noteUnsaved(overwritten);
  born.stored.keep();  // they read the storage, whoever writes it next
  holdIfKept(successor, storage);
}

ValueId StepRun::valueOf(UseId use) {
  ValueId id = uses_[use].value;
  if (id == kNone) return kNone;
  const auto successor = [this](ValueId value) { return values_[value].stored.successor(); };
  for (ValueId next = successor(id); next != kNone; next = successor(id)) {
    // Of many parts written one by one: the next search is shorter.
    if (successor(next) != kNone) values_[id].stored.passFurther(successor(next));
    id = next;
  }
  return id;
}

// Called with mutex_ held. By a replay that the plan, or the rest of it, still has to run?
bool StepRun::readByPlan(ValueId id) const {
  return mayDrop() && follower_.replayReads(id, kept_graphs_.keptEver());
}

// Called before a write that the plan may not know: replays to come that need these contents get a
// duplicate.
void StepRun::protect(ValueId id) {
  {
    const Locked lock(*this);
    RunValue& value = values_[id];
    value.written = value.producer == kNone;
    const bool read_online = value.readers > 0 && !(value.recomputable && value.live_uses == 0);
    if (!read_online && !readByPlan(id)) return;
  }
  const LaneScope lane(device_.lanes, lane_);  // before the write, wherever that is asked for
  std::optional<RestoreScope> restoring;       // replays that read it come first
  if (restoring_ != std::this_thread::get_id()) restoring.emplace(*this);
  c10::Storage present;
  {
    const Locked lock(*this);
    RunValue& value = values_[id];
    present = value.stored.storage();
    // Freed since, and allocated again to be written: what was read is in the block that was kept.
    const bool resized = present && value.resized(present);
    if (resized) endGuard(value);
    if (resized || value.pristine || value.stored.overwritten()) return;
  }
  if (!present) return;
  c10::Storage duplicate = unwrittenCopy(present);
  const Locked lock(*this);
  values_[id].pristine = std::move(duplicate);
  values_[id].pristine_until = static_cast<OpId>(ops_.size());
}

// Without it what is read later would have other bytes: it goes over the budget if it must,
// counted.
c10::Storage StepRun::unwrittenCopy(const c10::Storage& present) {
  const TrialScope trial;  // no error of the program's
  try {
    return duplicateStorage(present);
  } catch (const c10::Error& error) {
    session_.debug("a copy goes over the budget: " + messageOf(error));
  }
  const TrainedMemory::OverBudget over(session_.memory());
  return duplicateStorage(present);
}

void StepRun::noteUnrecordedWrite(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  const c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  ValueId id = kNone;
  {
    std::lock_guard lock(mutex_);
    const auto found = present_.find(storage);
    if (found == present_.end() || found->second.storage.expired()) return;
    id = found->second.value;
    if (values_[id].parameter) parameter_written_ = true;
  }
  protect(id);
  const Locked lock(*this);
  if (values_[id].parameter) return;
  overwrite(id, static_cast<OpId>(ops_.size()));
}

void StepRun::noteNaturalDeath(ValueId id, RunValue& value) {
  if (!value.stored.noteLetGo()) return;
  if (options_.log) options_.log->add(EventKind::kNaturalDeath, id);
}

// The program let go of a held value when ours is the only reference left.
void StepRun::noteNaturalDeaths() {
  std::erase_if(shared_with_program_, [&](ValueId id) {
    RunValue& value = values_[id];
    if (!value.stored.held()) return true;
    if (value.stored.held().use_count() > 1) return false;
    noteNaturalDeath(id, value);
    return true;
  });
}

}  // namespace ebbtide::plugin
