#include "execute/value_recorder.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/elapsed.hpp"
#include "execute/whole_code.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;

// RunOp::kept_because
constexpr const char* kUninitialised = "of uninitialised memory";
constexpr const char* kWrittenInUse = "written over while in use";
constexpr const char* kReadBeyond = "bytes that it did not give are read";

constexpr std::int64_t kCodeFloor = 32 << 10;  // smaller values are not worth an entry in the plan
constexpr std::int64_t kPage = 4096;           // encoded copies are counted in whole ones

}  // namespace

ValueId ValueRecorder::graphInput(const at::Tensor& tensor) {
  ValueId replaced = kNone;
  bool intact = false;
  {
    const StepLock::Held lock(lock_);
    if (const ValueId value = values_.find(lock, tensor); value != kNone) return value;
    if (Present* const present = values_.presentIn(lock, tensor)) {
      replaced = present->value;
      intact = present->untouched();
      // A version counter of its own: `.data` of what we know, or another part of a graph input,
      // which may have been written before this step. Of what is made in it any write would be
      // known.
      const std::uint32_t version = Present::versionOf(tensor);
      const bool source = values_[replaced].producer == kNone;
      if (intact && present->counterOf(tensor) == nullptr && (source || version == 0)) {
        present->add({WeakVersion(tensor.unsafeGetTensorImpl()->version_counter()), version});
        if (source) values_.noteTrained(lock, replaced, tensor);
        return replaced;
      }
    }
  }
  if (intact) protection_.protect(replaced);
  const StepLock::Freeing lock(lock_);
  if (replaced != kNone) overwrite(lock, replaced, ops_.next());
  const ValueId source = addValue(lock, tensor, kNone);
  if (replaced != kNone) passOn(lock, replaced, source, tensor.storage());
  return source;
}

UseId ValueRecorder::addUse(ValueId id, const at::Tensor& tensor, const TensorView& view, OpId by,
                            const torch::autograd::Node* maker) {
  const StepLock::Freeing lock(lock_);
  return addUse(lock, id, tensor, view, by, maker);
}

UseId ValueRecorder::addUseOfKnown(const at::Tensor& tensor, const TensorView& view, OpId by,
                                   const torch::autograd::Node* maker) {
  const StepLock::Freeing lock(lock_);
  const ValueId id = values_.find(lock, tensor);
  return id != kNone ? addUse(lock, id, tensor, view, by, maker) : kNone;
}

UseId ValueRecorder::addUseBetweenOps(const at::Tensor& tensor, const TensorView& view,
                                      const torch::autograd::Node* maker) {
  {
    const StepLock::Freeing lock(lock_);
    ValueId id = values_.find(lock, tensor);
    // Most often nothing is known of the storage.
    if (id == kNone && values_.presentIn(lock, tensor) == nullptr)
      id = addValue(lock, tensor, kNone);
    if (id != kNone) return addUse(lock, id, tensor, view, kNone, maker);
  }
  return addUse(graphInput(tensor), tensor, view, kNone, maker);
}

UseId ValueRecorder::addUse(const StepLock::Freeing& lock, ValueId id, const at::Tensor& tensor,
                            const TensorView& view, OpId by, const torch::autograd::Node* maker) {
  const std::int64_t output = maker != nullptr ? tensor.output_nr() : 0;
  const UseId use = saved_.add(id, view, {maker, output});
  if (log_) log_->noteUse();
  const bool joins = joinPlan(lock, use, id, by);
  if (id == kNone) return use;
  RunValue& value = values_.at(lock, id);
  value.touch(follower_.cursor().boundary());
  values_.addUse(lock, id, use);
  // The plan does not wait for what it does not know, or has not seen unpacked.
  const bool waited_for = joins && follower_.isUnpacked(use);
  if (!follower_.values().unplanned(id) && !follower_.offPlan() && !waited_for) value.stored.keep();
  noteRead(lock, id, tensor, view.bytes());
  lookForWrite(lock, id, tensor, by, ops_.next());
  kept_values_.holdIfKept(lock, id, tensor.storage());
  if (!value.stored.held()) values_.watchContents(lock, id);
  return use;
}

// `reader`: kNone: it is saved between ops. `first`: that reads what is there now for certain.
void ValueRecorder::lookForWrite(const StepLock::Freeing& lock, ValueId id,
                                 const at::Tensor& tensor, OpId reader, OpId first) {
  RunValue& value = values_.at(lock, id);
  if (!value.print()) return;
  const bool due =
      !value.expected() ||
      value.isLookDue(reader, static_cast<std::int64_t>(tensor.nbytes()), value.covered().bytes());
  if (due) noteUnseenWrite(lock, id, tensor.storage(), first);
}

// Between its birth and this use something wrote to it that told nobody, such as NumPy: its op
// would not give these contents.
void ValueRecorder::noteUnseenWrite(const StepLock::Freeing& lock, ValueId id,
                                    const c10::Storage& storage, OpId first) {
  RunValue& value = values_.at(lock, id);
  if (value.stored.overwritten() || value.stored.replaced()) return;
  if (value.isElsewhere(storage)) {
    value.forgetPrint();
  } else {
    if (verifier_.matches(value, storage)) return;
    value.notePrint(verifier_.printOf(value, storage, value.print()->extent()));
  }
  if (value.stored.slot() || value.stored.bits()) value.stored.keep();
  values_.giveUpCopies(lock, value);  // of what was there before
  keepOriginal(lock, value, kWrittenUnseen);
  if (!value.expected() || !(follower_.keepsAll() || replaysNeed(lock, id))) return;
  value.noteChanged(first);
  // No replay gives it, and replays of its readers may be to come.
  if (follower_.keepsAll() || !value.stored.kept() || value.isElsewhere(storage)) return;
  values_.holdPresent(lock, value, storage);
  values_.noteShared(lock, id);
}

void ValueRecorder::noteRestored(UseId use, const c10::Storage& storage,
                                 const c10::VariableVersion& version) {
  if (!version.enabled()) return;
  const StepLock::Freeing lock(lock_);
  const ValueId id = values_.latest(lock, saved_.valueOf(use));
  if (id == kNone) return;
  values_.noteRestored(
      lock, id, storage,
      {WeakVersion(version), static_cast<std::uint32_t>(version.current_version())});
}

void ValueRecorder::noteUnrecordedWrite(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  ValueId id = kNone;
  {
    const StepLock::Held lock(lock_);
    const Present* const present = values_.presentIn(lock, tensor);
    if (present == nullptr) return;
    id = present->value;
    if (values_[id].parameter()) {
      leaves_.noteWritten();
      if (log_ && log_->ranBackward()) log_->noteUpdated();  // an update, by hand too
    }
  }
  protection_.protect(id);
  const StepLock::Freeing lock(lock_);
  if (values_[id].parameter()) return;
  overwrite(lock, id, ops_.next());
}

void ValueRecorder::bindOutput(const StepLock::Freeing& lock, RunOp& op, OpId id, int index,
                               const at::Tensor& tensor) {
  if (!isPlain(tensor)) return;
  Present* const alias = values_.presentIn(lock, tensor);
  const ValueId previous = alias != nullptr ? alias->value : kNone;
  bool written = false;
  for (const auto& [argument, value] : op.written)
    written = written || (alias != nullptr && value == previous);
  if (alias != nullptr && !written) return;  // a view of an input: metadata, no new contents
  Present::Counters counters;
  std::vector<UseId> uses;
  ByteRange covered = bytesOf(tensor);
  if (previous != kNone && values_[previous].producer == id)  // returned twice
    return coverAlso(lock, previous, covered, tensor.storage());
  if (previous != kNone) {
    const RunValue& old = values_[previous];
    const bool whole = tensor.is_non_overlapping_and_dense() && covered.bytes() == old.bytes;
    if (old.uninitialised() && !whole) {  // the rest is whatever is there
      op.kept_because = kUninitialised;
      covered = {0, old.bytes};
    } else if (!old.uninitialised()) {
      covered = covered.with(old.covered());
    }
    counters = std::move(alias->counters);
    if (op.written.size() == 1) uses = takeUsesApart(lock, previous, tensor);
    overwrite(lock, previous, id);
  }
  const ValueId value = addOutput(lock, op, id, index, tensor, covered);
  if (previous == kNone) return;
  RunValue& born = values_.at(lock, value);
  // Same storage: hooks that saved the new epoch hold it, the old one no longer.
  born.noteEpochAfter(previous, values_[previous]);
  passOn(lock, previous, value, tensor.storage());
  moveUses(lock, uses, value, tensor);
  Present& present = *values_.presentIn(lock, tensor);
  for (const Present::Counter& counter : counters) {
    if (counter.version.identity() != born.counter.version.identity()) present.add(counter);
  }
}

// An op in place whose backward reads what was there: autograd saves a copy of that, which is
// nobody's output. That it is one, the verification step says.
void ValueRecorder::bindWrittenOver(const StepLock::Freeing& lock, RunOp& op, OpId id, int index,
                                    c10::ArrayRef<at::Tensor> saved) {
  if (op.written.size() != 1 || op.outputs.size() != 1) return;
  const at::Tensor* copy = nullptr;
  for (const at::Tensor& tensor : saved) {
    if (!isPlain(tensor)) continue;
    if (values_.presentIn(lock, tensor) != nullptr) continue;
    if (copy != nullptr) return;
    copy = &tensor;
  }
  if (copy == nullptr) return;
  if (op.record) op.record->saves_what_it_writes_over = true;
  addOutput(lock, op, id, index, *copy, bytesOf(*copy));
}

ValueId ValueRecorder::addOutput(const StepLock::Freeing& lock, RunOp& op, OpId id, int index,
                                 const at::Tensor& tensor, const ByteRange& covered) {
  const ValueId value = addValue(lock, tensor, id);
  RunValue& born = values_.at(lock, value);
  born.give(covered, op.info->uninitialised);
  takePrint(lock, op, value, tensor);
  tryCode(lock, op, value);
  op.outputs.push_back(value);
  op.output_of.emplace_back(index, value);
  return value;
}

void ValueRecorder::takePrint(const StepLock::Held& lock, const RunOp& op, ValueId id,
                              const at::Tensor& tensor) {
  RunValue& born = values_.at(lock, id);
  if (born.uninitialised()) return;
  const bool whole = tensor.is_non_overlapping_and_dense() && bytesOf(tensor) == born.covered();
  // NumPy takes no tensor that requires grad, and attention copies many of those.
  const bool writable = whole && !tensor.requires_grad();
  if (op.info->often_written_unseen && writable && device_.contents.onHost()) born.expect();
  // What comes back from a copy is what it was at its drop, whatever its op gave. Of a step that
  // follows its plan no other one will be made.
  const bool to_be_dropped = follower_.values().marked(id, &Plan::Values::restored_later) &&
                             follower_.values().fetchesOf(id) == 0;
  // Of a step that is merely recorded a print tells early what its verification step finds out,
  // too: not worth a wait for the device after each op.
  const bool recorded = log_ && !op.on_plan && device_.contents.onHost();
  const bool looked_at = born.expected() && replaysNeed(lock, id);
  if (recorded || op.record || to_be_dropped || looked_at)
    born.notePrint(verifier_.printOf(born, tensor.storage(), printExtent(op, born)));
}

// Of a trusted plan: may one read what something unseen writes from this step on? Where the
// recorded step saw such writes, the verification step has compared the replays.
bool ValueRecorder::replaysNeed(const StepLock::Held&, ValueId id) const {
  if (follower_.keepsAll() || follower_.values().unplanned(id)) return false;
  const Plan& plan = *follower_.plan();
  const ValueId planned = follower_.values().planned(id);
  const OpId producer = plan.values.producer[planned];
  return producer != kNone && plan.ops.rerunnable[producer] &&
         (plan.values.restored_later[planned] || plan.values.last_replay_read[planned] != kNone);
}

// Another result of the op that looks at the same storage.
void ValueRecorder::coverAlso(const StepLock::Held& lock, ValueId id, const ByteRange& covered,
                              const c10::Storage& storage) {
  RunValue& value = values_.at(lock, id);
  if (value.coverAlso(covered) && value.print())
    value.notePrint(verifier_.printOf(value, storage, value.print()->extent()));
}

// Before the op runs, or when a tensor is saved. Bytes that no op gave were written by something
// that tells nobody (a list that becomes a tensor): they come from outside, as a batch does, and
// the op that gave the memory is not run again.
void ValueRecorder::noteRead(const StepLock::Held& lock, ValueId id, const at::Tensor& tensor,
                             const ByteRange& read) {
  RunValue& value = values_.at(lock, id);
  if (value.producer == kNone) return;
  if (value.fill(value.bytes)) {
    if (follower_.keepsAll() && device_.contents.onHost())
      value.notePrint(
          verifier_.printOf(value, tensor.storage(), printExtent(ops_[value.producer], value)));
    keepOriginal(lock, value, kUninitialised);
  } else if (!value.covered().holds(read)) {
    keepOriginal(lock, value, kReadBeyond);
  }
}

// The plan that knows that the op is not run again may have the value from a copy.
void ValueRecorder::keepOriginal(const StepLock::Held& lock, RunValue& value, const char* why) {
  if (value.producer == kNone) return value.stored.keep();
  ops_.keep(lock, value.producer, why);
  const RunOp& op = ops_[value.producer];
  const OpId planned =
      op.on_plan && !follower_.offPlan() ? follower_.plannedOp(value.producer) : kNone;
  if (planned == kNone || follower_.plan()->ops.replayed[planned]) value.stored.keep();
}

// Of what the op gives. A replay whose original has died by then is compared with nothing but that.
// A sample would miss the few bytes that programs write into such a value.
Fingerprint::Extent ValueRecorder::printExtent(const RunOp& op, const RunValue& value) const {
  const bool is_compared = verifies(follower_, op) && op.record;
  return is_compared || value.expected() ? Fingerprint::Extent::kAll : Fingerprint::Extent::kSample;
}

// Saved uses that read nothing of what is being written: they find the same bytes afterwards.
std::vector<UseId> ValueRecorder::takeUsesApart(const StepLock::Freeing& lock, ValueId from,
                                                const at::Tensor& written) {
  RunValue& value = values_.at(lock, from);
  const auto& stored = value.stored;
  if (value.liveUses() == 0 || stored.stale() || stored.replaced() || stored.slot()) return {};
  const TensorView target = TensorView::of(written);
  std::vector<UseId> apart = saved_.where(
      value.uses(), [&target](const TensorView& view) { return view.isApartFrom(target); });
  if (!values_.endUses(lock, from, apart.size())) return apart;
  graphs_.noteUnsaved(from);
  if (!kept_values_.fetchedLater(lock, from, value)) values_.giveUpCopies(lock, value);
  return apart;
}

void ValueRecorder::moveUses(const StepLock::Freeing& lock, c10::ArrayRef<UseId> uses, ValueId to,
                             const at::Tensor& written) {
  RunValue& value = values_.at(lock, to);
  for (const UseId use : uses) {
    if (values_[saved_.valueOf(use)].stored.kept()) value.stored.keep();
    saved_.moveTo(use, to);
    values_.addUse(lock, to, use);
  }
  if (uses.empty()) return;
  kept_values_.holdIfKept(lock, to, written.storage());
  if (!value.stored.held()) values_.watchContents(lock, to);
}

// Is it the plan's next one? What an op of the plan saves has to be.
bool ValueRecorder::joinPlan(const StepLock::Held& lock, UseId use, ValueId value, OpId by) {
  const RunOp* const op = by != kNone && by < ops_.next() ? &ops_[by] : nullptr;
  const bool follows = follower_.follows();
  const bool joins = follower_.addUse(value, op == nullptr || op->on_plan);
  if (follows && !joins && op != nullptr && op->on_plan)
    kept_values_.leavePlan(lock, "saved tensor " + std::to_string(use));
  return joins;
}

// When the value is born: can it be encoded, and what does it take? The plan knows it of its steps.
void ValueRecorder::tryCode(const StepLock::Held& lock, const RunOp& op, ValueId id) {
  RunValue& value = values_.at(lock, id);
  if (value.block() == kNone || value.uninitialised() || value.bytes < kCodeFloor) return;
  if (!device_.contents.onHost()) return;
  const std::int64_t block_bytes = trained_.memory().blockBytes(value.data);
  const bool known = op.on_plan && !follower_.offPlan() && !follower_.values().unplanned(id);
  // An op without inputs has the same signature whatever the size of what it makes.
  if (known && follower_.values().codecOf(id).block_bytes == block_bytes) {
    value.noteCodec(follower_.values().codecOf(id));
    return;
  }
  const auto start = Clock::now();
  std::vector<char> bits;
  const auto room = [&bits](std::int64_t bytes) {
    bits.resize(static_cast<std::size_t>(bytes));
    return bits.data();
  };
  if (!encodeWhole(value.data, value.bytes, room)) return;
  const auto encoded_bytes = static_cast<std::int64_t>(bits.size());
  // To decode takes about as long.
  value.noteCodec({block_bytes, std::min((encoded_bytes + kPage - 1) / kPage * kPage, value.bytes),
                   2 * nanosecondsSince(start)});
}

ValueId ValueRecorder::addValue(const StepLock::Freeing& lock, const at::Tensor& tensor,
                                OpId producer) {
  follower_.addValue(producer);
  const ValueId id = values_.add(lock, tensor, producer, follower_.cursor().boundary());
  kept_values_.holdIfKept(lock, id, tensor.storage());
  return id;
}

void ValueRecorder::overwrite(const StepLock::Freeing& lock, ValueId id, OpId by) {
  if (values_.overwrite(lock, id, by)) ops_.keep(lock, values_[id].producer, kWrittenInUse);
}

void ValueRecorder::passOn(const StepLock::Freeing& lock, ValueId overwritten, ValueId successor,
                           const c10::Storage& storage) {
  if (!values_.passOn(lock, overwritten, successor, storage)) return;
  graphs_.noteUnsaved(overwritten);
  kept_values_.holdIfKept(lock, successor, storage);
}

// When an op reads it first: without a plan its readers may run again once the program has let go
// of it. Not of a part: what it is a part of may be a whole data set.
void ValueRecorder::printGraphInput(const StepLock::Held&, RunValue& value,
                                    const at::Tensor& tensor) {
  const bool may_be_read_again = step_.keeps_op_records && follower_.keepsAll() &&
                                 !follower_.verifies() && device_.contents.onHost();
  if (!may_be_read_again || value.producer != kNone || value.print()) return;
  if (value.parameter() || value.foreign || bytesOf(tensor) != value.covered()) return;
  value.expect();
  value.notePrint(verifier_.printOf(value, tensor.storage(), Fingerprint::Extent::kAll));
}

void ValueRecorder::noteInput(const StepLock::Freeing& lock, ValueId id, const at::Tensor& tensor) {
  noteRead(lock, id, tensor, bytesOf(tensor));
  printGraphInput(lock, values_.at(lock, id), tensor);
  const bool looks = follower_.keepsAll() || values_[id].expected();
  const OpId reader = ops_.next() - 1;
  if (looks && device_.contents.onHost()) lookForWrite(lock, id, tensor, reader, reader);
}

}  // namespace ebbtide::plugin
