// What an op makes: values of its outputs, and which saved uses go on over what it writes in place.
#include "fingerprint.hpp"
#include "step_run_state.hpp"

namespace ebbtide::plugin {

// An op that reads uninitialised memory has no contents of its own to repeat, unless it overwrites
// all of it.
bool StepRun::inputsAllowReplay(const RunOp& op) const {
  for (const ValueId id : op.inputs) {
    if (values_[id].uninitialised && !op.info->overwrites_fully) return false;
  }
  return true;
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
  if (previous != kNone && values_[previous].producer == id) return;  // returned twice
  if (previous != kNone) {
    const bool whole =
        tensor.numel() * static_cast<std::int64_t>(tensor.itemsize()) == values_[previous].bytes;
    if (values_[previous].uninitialised && !whole) op.kept_because = kUninitialised;
    counters = std::move(found->second.counters);
    if (op.written.size() == 1) uses = takeUsesApart(previous, tensor);
    overwrite(previous, id);
  }
  const ValueId value = addOutput(op, id, index, tensor);
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

ValueId StepRun::addOutput(RunOp& op, OpId id, int index, const at::Tensor& tensor) {
  const ValueId value = addValue(tensor, id, index);
  RunValue& born = values_[value];
  born.uninitialised = op.info->uninitialised;
  // What comes back from a copy is what it was at its drop, whatever its op gave. Of a step that
  // follows its plan no other one will be made.
  const bool to_be_dropped =
      planned(value, &Plan::restored_later) && options_.plan->fetches_of[plannedAs(value)] == 0;
  const auto extent = to_be_dropped ? extent_ : Fingerprint::Extent::kSample;
  // Of a step that is merely recorded a print tells early what its rehearsal finds out, too: not
  // worth a wait for the device after each op.
  const bool recorded = options_.log && !op.on_plan && device_.contents.onHost();
  const bool may_be_dropped = recorded || op.recipe || to_be_dropped;
  if (may_be_dropped && !born.uninitialised)
    born.print = device_.contents.fingerprint(born.data, born.bytes, extent);
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
  addOutput(op, id, index, *copy);
}

// Saved uses that read nothing of what is being written: they find the same bytes afterwards.
std::vector<UseId> StepRun::takeUsesApart(ValueId from, const at::Tensor& written) {
  RunValue& value = values_[from];
  if (value.live_uses == 0 || value.stale || value.replaced || value.spilled) return {};
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
    value.kept = value.kept || values_[uses_[use].value].kept;
    uses_[use].value = to;
    value.uses.push_back(use);
    ++value.live_uses;
  }
  if (uses.empty()) return;
  holdIfKept(to, written.storage());
  if (!value.held) watchContents(to);
}

}  // namespace ebbtide::plugin
