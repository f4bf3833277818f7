#include "step_run.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/StorageImpl.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <chrono>

#include "cpu_allocator.hpp"
#include "live_runs.hpp"
#include "step_run_state.hpp"

namespace ebbtide::plugin {
namespace {

using EventKind = scheduler::TraceEvent::Kind;

constexpr std::int64_t kSpillFloor = 32 << 10;  // smaller values are not worth a system call

void mix(std::uint64_t& hash, std::uint64_t word) {
  hash ^= word + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
}

}  // namespace

StepRun::StepRun(Session& session, Options options)
    : session_(session), options_(std::move(options)) {
  usePlan(options_.plan);
}

void StepRun::usePlan(std::shared_ptr<const Plan> plan) {
  options_.plan = std::move(plan);
  rehearsing_ = options_.plan && options_.plan->trials == 0;
  event_done_.assign(options_.plan ? options_.plan->events.size() : 0, false);
}

bool StepRun::outgrown() const noexcept {
  return ops_.size() > kMostOps;
}

StepRun::~StepRun() {
  for (RunValue& value : values_) {
    if (value.spilled) session_.spillStore().release(*value.spilled);
  }
}

void StepRun::leavePlan(const std::string& why) {
  if (off_plan_ || !options_.plan) return;
  off_plan_ = true;
  session_.debug("the step left its plan: " + why);
}

// ----------------------------------------------------------------------------------------------
// values

ValueId StepRun::findValue(const at::Tensor& tensor) {
  const auto found = known_.find(tensor.storage().unsafeGetStorageImpl());
  if (found == known_.end() || found->second.storage.expired()) return kNone;
  if (found->second.version != static_cast<std::uint32_t>(tensor._version())) return kNone;
  return found->second.value;
}

ValueId StepRun::sourceValue(const at::Tensor& tensor) {
  if (const ValueId value = findValue(tensor); value != kNone) return value;
  std::lock_guard lock(mutex_);
  const auto found = known_.find(tensor.storage().unsafeGetStorageImpl());
  if (found != known_.end() && !found->second.storage.expired()) {
    overwrite(found->second.value,
              static_cast<OpId>(ops_.size()));  // written by what we did not see
  }
  return addValue(tensor, kNone, 0);
}

ValueId StepRun::addValue(const at::Tensor& tensor, OpId producer, int output) {
  const auto id = static_cast<ValueId>(values_.size());
  RunValue& value = values_.emplace_back();
  value.producer = producer;
  value.output = output;
  value.bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  const bool leaf = tensor.is_leaf() && tensor.requires_grad();
  const bool view_of_leaf =
      tensor.is_view() && tensor._base().is_leaf() && tensor._base().requires_grad();
  value.parameter = producer == kNone && (leaf || view_of_leaf);
  if (value.parameter) parameters_.push_back(id);
  value.version = tensor.unsafeGetTensorImpl()->version_counter();
  value.version_at_birth = static_cast<std::uint32_t>(tensor._version());
  setCopy(value, tensor);
  if (options_.log && isOurBlock(tensor.storage())) {
    value.block = options_.log->blockAt(
        tensor.storage().data(), allocator::CachingResource::blockBytes(tensor.storage().data()));
  }
  known_.insert_or_assign(tensor.storage().unsafeGetStorageImpl(),
                          Known{weakly(tensor.storage()), id, value.version_at_birth});
  holdIfKept(id, tensor.storage());
  return id;
}

void StepRun::setCopy(RunValue& value, const at::Tensor& tensor) {
  value.copy = weakly(tensor.storage());
}

// Without a plan a value is held by its uses alone; with one, as the plan says.
void StepRun::holdIfKept(ValueId id, const c10::Storage& storage) {
  RunValue& value = values_[id];
  if (value.held || value.overwritten) return;
  const bool planned = options_.plan && !off_plan_ &&
                       id < static_cast<ValueId>(options_.plan->hold.size()) &&
                       options_.plan->hold[id] && !value.release_after_uses;
  const bool by_use = value.live_uses > 0 && keepsAll();
  if (!planned && !by_use) return;
  value.held = storage;
  watched_.push_back(id);
}

void StepRun::overwrite(ValueId id, OpId by) {
  RunValue& value = values_[id];
  if (value.overwritten) return;
  value.overwritten = true;
  value.overwritten_by = by;
  if (value.live_uses > 0) {
    // PyTorch raises an error for this, or (writes through .data) reads what is there now: so do
    // we.
    if (!value.held) value.held = c10::Storage(value.copy.lock());
    value.stale = true;
    if (value.producer != kNone) ops_[value.producer].rerunnable = false;
  } else {
    value.held = c10::Storage();
  }
  value.copy = noStorage();
}

// Called before a write that the plan does not know: replays that still need these contents get a
// duplicate.
void StepRun::protect(ValueId id) {
  const Plan* plan = options_.plan.get();
  if (plan == nullptr || live_uses_ == 0 || id >= static_cast<ValueId>(plan->replay_reads.size()))
    return;
  if (!plan->replay_reads[id] || plan->overwritten[id]) return;
  c10::Storage present;
  {
    std::lock_guard lock(mutex_);
    if (values_[id].pristine || values_[id].overwritten) return;
    present = values_[id].storage();
  }
  if (!present) return;
  c10::Storage duplicate = duplicateStorage(present);
  std::lock_guard lock(mutex_);
  values_[id].pristine = std::move(duplicate);
}

void StepRun::noteUnrecordedWrite(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  const auto found = known_.find(tensor.storage().unsafeGetStorageImpl());
  if (found == known_.end() || found->second.storage.expired()) return;
  protect(found->second.value);
  std::lock_guard lock(mutex_);
  if (values_[found->second.value].parameter) return;
  overwrite(found->second.value, static_cast<OpId>(ops_.size()));
  known_.erase(found);
}

void StepRun::noteNaturalDeath(ValueId id, RunValue& value) {
  if (value.dead) return;
  value.dead = true;
  if (options_.log) options_.log->add(EventKind::kNaturalDeath, id);
}

// The program let go of a held value when ours is the only reference left.
void StepRun::noteNaturalDeaths() {
  std::erase_if(watched_, [&](ValueId id) {
    RunValue& value = values_[id];
    if (!value.held) return true;
    if (value.held.use_count() > 1) return false;
    noteNaturalDeath(id, value);
    return true;
  });
}

// -------------------------------------------------------------------------------------------
// recording

void StepRun::hashInput(RunOp& op, int argument, int element, const at::Tensor& tensor) {
  if (!isPlain(tensor)) {
    mix(op.signature, 7);
    const bool constant = tensor.unsafeGetTensorImpl()->is_wrapped_number() && element < 0;
    if (!constant) op.rerunnable = false;
    return;
  }
  const ValueId value = sourceValue(tensor);
  op.inputs.push_back(value);
  if (op.info->writes[argument]) op.written.emplace_back(argument, value);
  mix(op.signature, static_cast<std::uint64_t>(value));
  for (std::int64_t size : tensor.sizes()) mix(op.signature, static_cast<std::uint64_t>(size));
  for (std::int64_t stride : tensor.strides())
    mix(op.signature, static_cast<std::uint64_t>(stride));
  mix(op.signature, static_cast<std::uint64_t>(tensor.scalar_type()));
}

// Before the op runs: it may write its inputs and draws from the generator.
std::unique_ptr<Recipe> StepRun::recordRecipe(const RunOp& op,
                                              c10::ArrayRef<const c10::IValue> inputs) const {
  auto recipe = std::make_unique<Recipe>();
  recipe->info = op.info;
  recipe->arguments = freezeArguments(inputs);
  std::size_t next = 0;
  forEachTensor(inputs, [&](int argument, int element, const at::Tensor& tensor) {
    if (isPlain(tensor))
      recipe->inputs.push_back({argument, element, op.inputs.at(next++), TensorView::of(tensor)});
  });
  if (!op.info->seeded) return recipe;
  recipe->generator = at::detail::getDefaultCPUGenerator();
  for (const c10::IValue& value : inputs) {
    if (value.isGenerator() && value.toGenerator().defined())
      recipe->generator = value.toGenerator();
  }
  std::lock_guard lock(recipe->generator.mutex());
  recipe->random_state = recipe->generator.get_state();
  return recipe;
}

OpId StepRun::beginOp(const OpInfo& info, c10::ArrayRef<const c10::IValue> inputs) {
  const auto id = static_cast<OpId>(ops_.size());
  {
    std::lock_guard lock(mutex_);
    noteNaturalDeaths();
  }
  RunOp& op = ops_.emplace_back();
  op.info = &info;
  op.signature = info.hash;
  op.rerunnable = !info.never_replay;
  forEachTensor(inputs, [&](int argument, int element, const at::Tensor& tensor) {
    hashInput(op, argument, element, tensor);
  });
  if (id == 0 && use_value_.empty() && options_.plan &&
      options_.plan->op_signatures.at(0) != op.signature) {
    usePlan(session_.switchPlan(op.signature));  // nothing has been dropped yet
  }
  const Plan* plan = options_.plan.get();
  const bool on_plan = plan && !off_plan_ && id < static_cast<OpId>(plan->op_signatures.size()) &&
                       plan->op_signatures[id] == op.signature;
  if (plan && !on_plan) {
    for (const auto& [argument, value] : op.written) protect(value);
  }
  if (on_plan && plan->replayed[id]) op.recipe = recordRecipe(op, inputs);
  if (options_.log) op.log_position = options_.log->add(EventKind::kOpBegin, id);
  return id;
}

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
  const auto found = known_.find(tensor.storage().unsafeGetStorageImpl());
  const bool alias = found != known_.end() && !found->second.storage.expired();
  bool written = false;
  for (const auto& [argument, value] : op.written)
    written = written || (alias && value == found->second.value);
  if (alias && !written) return;  // a view of an input: metadata, no new contents
  const ValueId previous = alias ? found->second.value : kNone;
  if (previous != kNone && values_[previous].producer == id) return;  // returned twice
  if (previous != kNone) {
    const bool whole =
        tensor.numel() * static_cast<std::int64_t>(tensor.itemsize()) == values_[previous].bytes;
    if (values_[previous].uninitialised && !whole) op.rerunnable = false;
    overwrite(previous, id);
  }
  const ValueId value = addValue(tensor, id, index);
  values_[value].previous_epoch = previous;
  values_[value].uninitialised = op.info->uninitialised;
  if (previous !=
      kNone) {  // same storage: hooks that saved the new epoch hold it, the old one no longer
    values_[value].block = values_[previous].block;
  }
  op.outputs.push_back(value);
  op.output_of.emplace_back(index, value);
}

void StepRun::endOp(OpId id, c10::ArrayRef<const c10::IValue> outputs, std::int64_t duration_ns) {
  RunOp& op = ops_[id];
  op.duration_ns = duration_ns;
  op.finished = true;
  std::size_t made = 0;
  {
    std::lock_guard lock(mutex_);
    if (!inputsAllowReplay(op)) op.rerunnable = false;
    int index = 0;
    forEachTensor(outputs,
                  [&](int, int, const at::Tensor& tensor) { bindOutput(op, id, index++, tensor); });
    for (const auto& [argument, value] : op.written) {  // written but not returned
      if (values_[value].overwritten_by != id && !values_[value].parameter) overwrite(value, id);
    }
    made = op.outputs.size() + op.written.size();
  }
  if (made == 0 &&
      id + 1 ==
          static_cast<OpId>(ops_.size())) {  // a view or a query: no part of the program's memory
    if (options_.log) options_.log->erase(op.log_position);
    ops_.pop_back();
    return;
  }
  if (options_.log) options_.log->add(EventKind::kOpEnd, id);
  if (const Plan* plan = options_.plan.get(); plan && !off_plan_) {
    const bool known = id < static_cast<OpId>(plan->op_signatures.size()) &&
                       plan->op_signatures[id] == op.signature;
    if (!known) leavePlan(op.info->name + " at op " + std::to_string(id));
  }
  if (options_.plan && !off_plan_) {
    std::lock_guard lock(mutex_);
    if (!rehearsing_) applyDrops(options_.plan->drops_after_op[id]);
  }
}

// ----------------------------------------------------------------------------------------------
// saved uses

UseId StepRun::addUse(ValueId id, const at::Tensor& tensor) {
  std::lock_guard lock(mutex_);
  const auto use = static_cast<UseId>(use_value_.size());
  use_value_.push_back(id);
  use_released_.push_back(false);
  use_visits_.push_back(0);
  ++live_uses_;
  const Plan* plan = options_.plan.get();
  if (plan && !off_plan_ &&
      (use >= static_cast<UseId>(plan->use_value.size()) || plan->use_value[use] != id)) {
    leavePlan("saved tensor " + std::to_string(use));
  }
  if (id == kNone) return use;
  ++values_[id].live_uses;
  holdIfKept(id, tensor.storage());
  return use;
}

void StepRun::releaseUse(UseId use) noexcept {
  c10::Storage released;  // freed after the lock is
  {
    std::lock_guard lock(mutex_);
    if (use_released_[use]) return;
    use_released_[use] = true;
    if (options_.log) options_.log->add(EventKind::kRelease, use);
    const ValueId id = use_value_[use];
    if (id != kNone) {
      RunValue& value = values_[id];
      --value.live_uses;
      const bool done = keepsAll() ? !(options_.plan &&
                                       options_.plan->hold.size() > static_cast<std::size_t>(id) &&
                                       options_.plan->hold[id] && !value.release_after_uses)
                                   : value.release_after_uses;
      if (value.live_uses == 0 && done) {
        if (value.held && value.held.use_count() == 1) noteNaturalDeath(id, value);
        released = std::move(value.held);
        if (value.spilled)
          session_.spillStore().release(*std::exchange(value.spilled, std::nullopt));
      }
    }
  }
  --live_uses_;
}

void StepRun::applyDrops(const std::vector<ValueId>& drops) {
  for (const ValueId id : drops) drop(id);
}

// Called with mutex_ held. A value whose hooks are still alive is given up only if the plan makes
// it again.
void StepRun::drop(ValueId id) {
  RunValue& value = values_[id];
  const bool again = options_.plan->recomputed_later[id];
  if (value.live_uses > 0 && !again) {
    value.release_after_uses = true;
    return;
  }
  if (keep_graph_ && !again) return;
  if (rehearsing_ && again && value.live_uses > 0 && !value.rejected)
    return;  // the original judges the replay
  if (value.rejected) return;
  value.release_after_uses = value.live_uses == 0;
  value.held = c10::Storage();
  if (value.spilled) session_.spillStore().release(*std::exchange(value.spilled, std::nullopt));
}

bool StepRun::parametersChanged() const {
  std::lock_guard lock(mutex_);
  return std::any_of(parameters_.begin(), parameters_.end(), [&](ValueId id) {
    const RunValue& value = values_[id];
    return value.version.enabled() && value.version.current_version() != value.version_at_birth;
  });
}

// ---------------------------------------------------------------------------------------------------
// spilling

std::int64_t StepRun::spill(std::int64_t need_bytes) noexcept try {
  std::int64_t freed = 0;
  for (std::size_t id = 0; freed < need_bytes; ++id) {
    c10::Storage victim;
    {
      std::unique_lock lock(mutex_);
      if (id >= values_.size()) break;
      RunValue& value = values_[id];
      if (!value.held || value.parameter || value.bytes < kSpillFloor ||
          value.held.use_count() != 1 || !isOurBlock(value.held)) {
        continue;
      }
      noteNaturalDeath(static_cast<ValueId>(id), value);
      victim = value.held;  // stays readable for others while it is written
    }
    const auto slot =
        session_.spillStore().write(victim.data(), static_cast<std::int64_t>(victim.nbytes()));
    if (!slot) break;
    std::lock_guard lock(mutex_);
    RunValue& value = values_[id];
    if (!value.held || value.held.use_count() != 2 || value.spilled) {  // taken up meanwhile
      session_.spillStore().release(*slot);
      continue;
    }
    value.spilled = slot;
    value.held = c10::Storage();
    freed += value.bytes;
    session_.countSpill(value.bytes);
  }
  return freed;
} catch (...) {
  return 0;
}

// ---------------------------------------------------------------------------------------------------
// trace

scheduler::Trace StepRun::takeTrace() {
  std::lock_guard lock(mutex_);
  scheduler::Trace trace;
  std::uint64_t signature = 0xcbf29ce484222325ULL;
  for (const RunOp& op : ops_) {
    mix(signature, op.signature);
    trace.ops.push_back({op.info->name, op.signature, op.duration_ns, op.rerunnable && op.finished,
                         op.inputs, op.outputs});
  }
  trace.signature = signature;
  for (const RunValue& value : values_) {
    trace.values.push_back(
        {value.producer, value.block, value.previous_epoch,
         value.overwritten_by < static_cast<OpId>(ops_.size()) ? value.overwritten_by : kNone,
         value.parameter});
  }
  trace.use_value = use_value_;
  options_.log->moveInto(trace);
  return trace;
}

}  // namespace ebbtide::plugin
