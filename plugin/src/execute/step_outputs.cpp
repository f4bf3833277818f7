// What an op makes: values of its outputs, and which saved uses go on over what it writes in place.
#include "device/fingerprint.hpp"
#include "execute/step_run_state.hpp"

namespace ebbtide::plugin {

// Called with mutex_ held, before the op runs, or when a tensor is saved. Bytes that no op gave
// were written by something that tells nobody (a list that becomes a tensor): they come from
// outside, as a batch does, and the op that gave the memory is not run again.
void StepRun::noteRead(ValueId id, const at::Tensor& tensor, const ByteRange& read) {
  RunValue& value = values_[id];
  if (value.producer == kNone) return;
  if (value.uninitialised) {
    value.uninitialised = false;
    value.covered = {0, value.bytes};
    if (follower_.keepsAll() && device_.contents.onHost())
      value.print = verifier_.printOf(value, tensor.storage(), printExtent(ops_[value.producer]));
    keepOriginal(value, kUninitialised);
  } else if (!value.covered.holds(read)) {
    keepOriginal(value, kReadBeyond);
  }
}

// Called with mutex_ held. The plan that knows that the op is not run again may have the value from
// a copy.
void StepRun::keepOriginal(RunValue& value, const char* why) {
  RunOp& op = ops_[value.producer];
  op.kept_because = why;
  const OpId planned =
      op.on_plan && !follower_.offPlan() ? follower_.plannedOp(value.producer) : kNone;
  if (planned == kNone || follower_.plan()->replayed[planned]) value.stored.keep();
}

// Of what the op gives. A replay whose original has died by then is compared with nothing but that.
Fingerprint::Extent StepRun::printExtent(const RunOp& op) const {
  const bool is_compared = rehearses(op) && op.recipe;
  return is_compared ? Fingerprint::Extent::kAll : Fingerprint::Extent::kSample;
}

void StepRun::bindOutput(RunOp& op, OpId id, int index, const at::Tensor& tensor) {
  if (!isPlain(tensor)) return;
  const auto found = present_.find(tensor.storage().unsafeGetStorageImpl());
  const bool alias = found != present_.end() && !found->second.storage.expired();
  bool written = false;
  for (const auto& [argument, value] : op.written)
    written = written || (alias && value == found->second.value);
  if (alias && !written) return;  // a view of an input: metadata, no new contents
  const ValueId previous = alias ? found->second.value : kNone;
  Present::Counters counters;
  std::vector<UseId> uses;
  ByteRange covered = bytesOf(tensor);
  if (previous != kNone && values_[previous].producer == id)  // returned twice
    return coverAlso(values_[previous], covered, tensor.storage());
  if (previous != kNone) {
    const RunValue& old = values_[previous];
    const bool whole = tensor.is_non_overlapping_and_dense() && covered.bytes() == old.bytes;
    if (old.uninitialised && !whole) {  // the rest is whatever is there
      op.kept_because = kUninitialised;
      covered = {0, old.bytes};
    } else if (!old.uninitialised) {
      covered = covered.with(old.covered);
    }
    counters = std::move(found->second.counters);
    if (op.written.size() == 1) uses = takeUsesApart(previous, tensor);
    overwrite(previous, id);
  }
  const ValueId value = addOutput(op, id, index, tensor, covered);
  if (previous == kNone) return;
  RunValue& born = values_[value];
  born.previous_epoch = previous;
  // Same storage: hooks that saved the new epoch hold it, the old one no longer.
  born.block = values_[previous].block;
  passOn(previous, value, tensor.storage());
  moveUses(uses, value, tensor);
  Present& present = present_.at(tensor.storage().unsafeGetStorageImpl());
  for (const Present::Counter& counter : counters) {
    if (counter.version.identity() != born.version.identity()) present.add(counter);
  }
}

// Another result of the op that looks at the same storage.
void StepRun::coverAlso(RunValue& value, const ByteRange& covered, const c10::Storage& storage) {
  if (value.covered.holds(covered)) return;
  value.covered = value.covered.with(covered);
  if (value.print) value.print = verifier_.printOf(value, storage, value.print->extent());
}

ValueId StepRun::addOutput(RunOp& op, OpId id, int index, const at::Tensor& tensor,
                           const ByteRange& covered) {
  const ValueId value = addValue(tensor, id, index);
  RunValue& born = values_[value];
  born.covered = covered;
  born.uninitialised = op.info->uninitialised;
  // What comes back from a copy is what it was at its drop, whatever its op gave. Of a step that
  // follows its plan no other one will be made.
  const bool to_be_dropped =
      follower_.planned(value, &Plan::restored_later) && follower_.fetchesOf(value) == 0;
  // Of a step that is merely recorded a print tells early what its rehearsal finds out, too: not
  // worth a wait for the device after each op.
  const bool recorded = options_.log && !op.on_plan && device_.contents.onHost();
  const bool may_be_dropped = recorded || op.recipe || to_be_dropped;
  if (may_be_dropped && !born.uninitialised)
    born.print = verifier_.printOf(born, tensor.storage(), printExtent(op));
  tryCode(op, value);
  op.outputs.push_back(value);
  op.output_of.emplace_back(index, value);
  return value;
}

// An op in place whose backward reads what was there: autograd saves a copy of that, which is
// nobody's output. That it is one, the rehearsal says.
void StepRun::bindWrittenOver(RunOp& op, OpId id, int index, c10::ArrayRef<at::Tensor> saved) {
  if (op.written.size() != 1 || op.outputs.size() != 1) return;
  const at::Tensor* copy = nullptr;
  for (const at::Tensor& tensor : saved) {
    if (!isPlain(tensor)) continue;
    const auto found = present_.find(tensor.storage().unsafeGetStorageImpl());
    if (found != present_.end() && !found->second.storage.expired()) continue;
    if (copy != nullptr) return;
    copy = &tensor;
  }
  if (copy == nullptr) return;
  if (op.recipe) op.recipe->saves_what_it_writes_over = true;
  addOutput(op, id, index, *copy, bytesOf(*copy));
}

// Saved uses that read nothing of what is being written: they find the same bytes afterwards.
std::vector<UseId> StepRun::takeUsesApart(ValueId from, const at::Tensor& written) {
  RunValue& value = values_[from];
  const auto& stored = value.stored;
  if (value.live_uses == 0 || stored.stale() || stored.replaced() || stored.slot()) return {};
  const TensorView target = TensorView::of(written);
  std::vector<UseId> apart;
  for (const UseId use : value.uses) {
    if (uses_[use].view->isApartFrom(target)) apart.push_back(use);
  }
  value.live_uses -= static_cast<std::int32_t>(apart.size());
  if (apart.empty() || value.live_uses > 0) return apart;
  kept_graphs_.noteUnsaved(from);
  if (!fetchedLater(from, value)) giveUpCopies(value);
  return apart;
}

void StepRun::moveUses(c10::ArrayRef<UseId> uses, ValueId to, const at::Tensor& written) {
  RunValue& value = values_[to];
  for (const UseId use : uses) {
    if (values_[uses_[use].value].stored.kept()) value.stored.keep();
    uses_[use].value = to;
    value.uses.push_back(use);
    ++value.live_uses;
  }
  if (uses.empty()) return;
  holdIfKept(to, written.storage());
  if (!value.stored.held()) watchContents(to);
}

}  // namespace ebbtide::plugin
