#include "execute/step_run.hpp"

#include <c10/core/StorageImpl.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <chrono>

#include "base/thread_scopes.hpp"
#include "device/fingerprint.hpp"
#include "execute/step_run_state.hpp"

namespace ebbtide::plugin {
namespace {

using EventKind = scheduler::TraceEvent::Kind;

// Why an op is not to run again: for the report.
constexpr const char* kReadsOtherKind = "reads a tensor that is not dense, plain and on the device";
constexpr const char* kReadsForeign = "reads memory that others may write";
constexpr const char* kNeverReplayed = "a collective, or an operation of another library";
constexpr const char* kInNoOrder = "adds or overwrites in no order on a GPU";
constexpr const char* kFailed = "failed";
constexpr const char* kFailedLater = "written by an operation that failed";

// Words of an op's signature that stand for an input without a value to tell, or add to it.
constexpr std::uint64_t kHashedOtherKind = 7;
constexpr std::uint64_t kHashedNumber = 8;
constexpr std::uint64_t kHashedForeign = 9;

void mix(std::uint64_t& hash, std::uint64_t word) {
  hash ^= word + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
}

}  // namespace

StepRun::StepRun(Session& session, Options options, std::shared_ptr<const Plan> plan)
    : session_(session),
      options_(std::move(options)),
      keeps_recipes_(session.pressed() && device_.contents.onHost()) {
  follower_.follow(std::move(plan));
}

bool StepRun::outgrown() const noexcept {
  return ops_.size() > kMostOps || use_count_ > kMostUses;
}

StepRun::~StepRun() {
  for (RunValue& value : values_) {
    if (const auto& slot = value.stored.slot()) session_.spills().release(*slot);
    endGuard(value);
  }
}

// -------------------------------------------------------------------------------------------
// recording

void StepRun::hashInput(RunOp& op, int argument, int element, const at::Tensor& tensor) {
  const auto mixBoth = [&op, more = follower_.doesMore()](std::uint64_t word) {
    mix(op.signature, word);
    if (more) mix(op.aligned_signature, word);
  };
  const auto mixLooks = [&mixBoth, &tensor] {
    for (std::int64_t size : tensor.sizes()) mixBoth(static_cast<std::uint64_t>(size));
    for (std::int64_t stride : tensor.strides()) mixBoth(static_cast<std::uint64_t>(stride));
    mixBoth(static_cast<std::uint64_t>(tensor.scalar_type()));
  };
  if (!isPlain(tensor)) {
    if (isSecondDevice(tensor.device())) keepEverything(kTwoDevices);
    const bool empty = isEmpty(tensor) && !op.info->writes[argument];
    const bool number = tensor.unsafeGetTensorImpl()->is_wrapped_number() && element < 0;
    mixBoth(number ? kHashedNumber : kHashedOtherKind);
    if (empty) mixLooks();
    if (!empty && !number) op.kept_because = kReadsOtherKind;
    return;
  }
  if (op.updates_statistics && op.info->isStatistic(argument)) {  // no input of its replay
    mixLooks();
    return;
  }
  const ValueId value = sourceValue(tensor);
  {
    const Locked lock(*this);
    RunValue& source = values_[value];
    if (!op.info->writes[argument] || !op.info->overwrites_fully) {
      noteRead(value, tensor, bytesOf(tensor));
      if (follower_.keepsAll() && device_.contents.onHost())
        noteUnseenWrite(source, tensor.storage());
    }
    // What is not ours is written by what we do not see: a loader that fills its buffer again.
    if (source.foreign && source.producer == kNone && !source.parameter) {
      op.kept_because = kReadsForeign;
      mixBoth(kHashedForeign);
    }
  }
  op.inputs.push_back(value);
  if (op.info->writes[argument]) op.written.emplace_back(argument, value);
  mix(op.signature, static_cast<std::uint64_t>(value));
  if (follower_.doesMore())
    mix(op.aligned_signature, static_cast<std::uint64_t>(follower_.plannedValue(value)));
  mixLooks();
}

// Before the op runs: it may write its inputs and draws from the generator.
std::unique_ptr<Recipe> StepRun::recordRecipe(const RunOp& op,
                                              c10::ArrayRef<const c10::IValue> inputs) const {
  auto recipe = std::make_unique<Recipe>();
  recipe->info = op.info;
  recipe->state = GlobalState::now();
  recipe->arguments = freezeArguments(inputs);
  std::size_t next = 0;
  forEachTensor(inputs, [&](int argument, int element, const at::Tensor& tensor) {
    if (isPlain(tensor) && !(op.updates_statistics && op.info->isStatistic(argument)))
      recipe->inputs.push_back({argument, element, op.inputs.at(next++), TensorView::of(tensor)});
  });
  if (!op.info->seeded) return recipe;
  recipe->generator = device_.random.shared().front();
  for (const c10::IValue& value : inputs) {
    if (value.isGenerator() && value.toGenerator().defined())
      recipe->generator = value.toGenerator();
  }
  std::lock_guard lock(recipe->generator.mutex());
  const OwnMemoryScope own;
  recipe->random_state = recipe->generator.get_state();
  return recipe;
}

OpId StepRun::beginOp(const OpInfo& info, c10::ArrayRef<const c10::IValue> inputs) {
  RunOp* made = nullptr;
  {
    const Locked lock(*this);
    if (options_.log) noteNaturalDeaths();
    made = &ops_.emplace_back();
    made->first_value = static_cast<ValueId>(values_.size());
    made->first_use = static_cast<UseId>(uses_.size());
  }
  RunOp& op = *made;
  const auto id = static_cast<OpId>(ops_.size()) - 1;  // this thread alone adds some
  op.info = &info;
  op.signature = op.aligned_signature = info.hash;
  op.updates_statistics = info.updatesStatistics(inputs);
  op.filled = session_.replayTrust().leavesUnwritten(info.name);
  if (info.never_replay) op.kept_because = kNeverReplayed;
  if (info.may_differ_on_gpu && !device_.contents.onHost()) op.kept_because = kInNoOrder;
  forEachTensor(inputs, [&](int argument, int element, const at::Tensor& tensor) {
    hashInput(op, argument, element, tensor);
  });
  if (id == 0 && use_count_ == 0) {  // nothing has been dropped yet
    auto its_plan = session_.planFor(op.signature, options_.trains);
    if (its_plan != follower_.plan()) switchPlan(std::move(its_plan));
  }
  const Plan* plan = follower_.plan().get();
  op.on_plan = isPlanned(op);
  op.known_signature = op.on_plan ? plan->op_signatures[follower_.nextOp()] : op.signature;
  if (plan ? !op.on_plan : keeps_recipes_) {
    for (const auto& [argument, value] : op.written) protect(value);
  }
  const bool by_plan = op.on_plan && plan->replayed[follower_.nextOp()];
  const bool by_pressure = keeps_recipes_ && !op.on_plan && op.kept_because == nullptr &&
                           info.repeats_because != nullptr;
  if (by_plan || by_pressure) op.recipe = recordRecipe(op, inputs);
  if (options_.log) op.log_position = options_.log->add(EventKind::kOpBegin, id);
  const Locked lock(*this);
  follower_.addOp(op.on_plan);
  return id;
}

bool StepRun::fillsMemory(OpId op) const {
  return ops_[op].filled;
}

void StepRun::endOp(OpId id, c10::ArrayRef<const c10::IValue> outputs,
                    c10::ArrayRef<at::Tensor> saved, TimeSpan time) {
  RunOp& op = ops_[id];
  op.time = std::move(time);
  // An op that threw has no outputs. What it was to write may be half written, or not at all.
  const bool threw = outputs.empty() && !op.info->handle.schema().returns().empty();
  {
    const Locked lock(*this);
    op.finished = !threw;  // here: another thread looks for readers (savedReader)
    if (threw) {
      for (const auto& [argument, value] : op.written) {
        values_[value].stored.keep();
        if (values_[value].producer != kNone)
          ops_[values_[value].producer].kept_because = kFailedLater;
      }
      op.written.clear();
    }
    int index = 0;
    forEachTensor(outputs,
                  [&](int, int, const at::Tensor& tensor) { bindOutput(op, id, index++, tensor); });
    if (!threw) bindWrittenOver(op, id, index, saved);
    for (const auto& [argument, value] : op.written) {  // written but not returned
      if (values_[value].overwritten_by == id || values_[value].parameter) continue;
      overwrite(value, id);
    }
    const bool made_values = op.outputs.size() + op.written.size() > 0;
    if (!made_values && id + 1 == static_cast<OpId>(ops_.size())) {
      // A view or a query: no part of the program's memory.
      if (options_.log) options_.log->erase(op.log_position);
      noteNone(op);
      ops_.pop_back();
      return;
    }
  }
  follower_.cursor().touch();
  if (options_.log) options_.log->add(EventKind::kOpEnd, id);
  if (follower_.follows()) followPlan(op, id);
  if (device_.contents.onHost()) return;
  const Locked lock(*this);
  dropLate();
}

// On any thread that runs a node.
void StepRun::logBackwardNode(const char* name) {
  const int pass = torch::autograd::get_current_graph_task_id();
  int known = backward_pass_;
  while (pass > known && !backward_pass_.compare_exchange_weak(known, pass)) {
  }
  if (pass > known) options_.log->add(EventKind::kBackwardPass, 0);
  options_.log->addNode(name);
}

// ----------------------------------------------------------------------------------------------
// saved uses

UseId StepRun::addUse(ValueId id, const at::Tensor& tensor, const TensorView& view, OpId by,
                      const torch::autograd::Node* maker) {
  const Locked lock(*this);
  const auto use = static_cast<UseId>(uses_.size());
  Use& added = uses_.emplace_back();
  added.value = id;
  added.view = &view;
  added.maker = maker;
  if (maker != nullptr) added.maker_output = tensor.output_nr();
  ++use_count_;
  ++live_uses_;
  if (options_.log) options_.log->noteUse();
  const bool joins = joinPlan(use, id, by);
  if (id == kNone) return use;
  RunValue& value = values_[id];
  value.touched = follower_.cursor().boundary();
  value.uses.push_back(use);
  ++value.live_uses;
  // The plan does not wait for what it does not know, or has not seen unpacked.
  const bool waited_for = joins && follower_.isUnpacked(use);
  if (!follower_.unplanned(id) && !follower_.offPlan() && !waited_for) value.stored.keep();
  noteRead(id, tensor, view.bytes());
  noteUnseenWrite(value, tensor.storage());
  holdIfKept(id, tensor.storage());
  if (!value.stored.held()) watchContents(id);
  return use;
}

void StepRun::noteDetached(const at::Tensor& tensor) {
  const torch::autograd::Node* const maker = tensor.grad_fn().get();
  if (maker == nullptr || !tensor.has_storage()) return;
  std::lock_guard lock(mutex_);
  const auto found = present_.find(tensor.storage().unsafeGetStorageImpl());
  if (found == present_.end()) return;
  for (const UseId id : values_[found->second.value].uses) {
    Use& use = uses_[id];
    if (use.maker == maker && use.maker_output == tensor.output_nr()) use.detached = true;
  }
}

bool StepRun::isDetached(UseId use) const {
  std::lock_guard lock(mutex_);
  return uses_[use].detached;
}

// Between its birth and this use something wrote to it that told nobody, such as NumPy: its op
// would not give these contents.
void StepRun::noteUnseenWrite(RunValue& value, const c10::Storage& storage) {
  if (!value.print || value.stored.overwritten() || value.stored.replaced()) return;
  const bool resized =
      storage.data() != value.data || static_cast<std::int64_t>(storage.nbytes()) != value.bytes;
  if (resized) {
    value.print.reset();
  } else {
    if (verifier_.matches(value, storage)) return;
    value.print = verifier_.printOf(value, storage, value.print->extent());
  }
  value.stored.keep();
  if (value.producer != kNone) ops_[value.producer].kept_because = kWrittenUnseen;
  giveUpCopies(value);  // of what was there before
}

// Called with mutex_ held.
void StepRun::forgetUse(UseId use) {
  auto& uses = values_[uses_[use].value].uses;
  const auto found = std::find(uses.rbegin(), uses.rend(), use);  // the last one goes first
  if (found != uses.rend()) uses.erase(std::prev(found.base()));
}

void StepRun::releaseUse(UseId use) noexcept {
  {
    const Locked lock(*this);
    if (std::exchange(uses_[use].released, true)) return;
    if (uses_[use].left_over) kept_graphs_.addLeftOver(-1);
    follower_.cursor().touch();
    if (options_.log) options_.log->add(EventKind::kRelease, use);
    if (const ValueId id = valueOf(use); id != kNone) {
      RunValue& value = values_[id];
      forgetUse(use);
      const bool asked_for = isAskedFor(id);
      const bool wanted = !follower_.offPlan() && (value.made_again || fetchedLater(id, value));
      const bool released =
          !wanted && (value.release_after_uses || value.stored.isLate() ||
                      (follower_.keepsAll() && !follower_.planned(id, &Plan::hold)));
      const bool done = released && !asked_for;
      --value.live_uses;
      if (value.live_uses == 0 && released && asked_for) kept_graphs_.hold(id);
      if (value.live_uses == 0) kept_graphs_.noteUnsaved(id);
      if (value.live_uses == 0) endWatch(value);
      if (value.live_uses == 0 && !fetchedLater(id, value) && !asked_for) {
        if (value.stored.servesLater() && value.readers == 0) {
          giveUpCopies(value);
        } else {
          giveUpCode(value);
        }
      }
      if (value.live_uses == 0 && done && value.readers == 0) {
        if (value.stored.held().use_count() == 1) noteNaturalDeath(id, value);
        giveUp(value);
        giveUpSlot(value);
      }
      if (value.live_uses == 0) letGo(id);
    }
  }
  if (--live_uses_ > 0) return;
  {  // the last event's values need not wait for another one
    const RestoreScope restoring(*this, std::try_to_lock);
    if (restoring.held()) finishLastEvent();
  }
  if (follower_.offPlan()) {
    giveUpAll();
  } else if (follower_.plan()) {
    const Locked lock(*this);
    giveUpUnasked();
  }
  if (options_.log) options_.log->rest();
}

// No saved use is left, and the plan, left, drops nothing any more.
void StepRun::giveUpAll() {
  const Locked lock(*this);
  for (std::size_t id = 0; id < values_.size(); ++id) {
    RunValue& value = values_[id];
    if (value.live_uses > 0) continue;
    if (value.stored.held().use_count() == 1) noteNaturalDeath(static_cast<ValueId>(id), value);
    value.readers = 0;
    value.recomputable = false;
    endGuard(value);
    giveUp(value);
    if (value.pristine) given_up_.push_back(std::move(value.pristine));
    value.pristine = c10::Storage();
    giveUpCopies(value);
  }
}

bool StepRun::parametersChanged() const {
  if (parameter_written_) return true;
  std::lock_guard lock(mutex_);
  bool all_gone = !parameters_.empty();
  for (const Trained& trained : parameters_) {
    const bool swapped = trained.now != trained.storage._unsafe_get_target();
    if (swapped || trained.counter.moved()) return true;  // `p.data = …`, or written in place
    all_gone = all_gone && trained.storage.expired();
  }
  return all_gone;  // new leaves each step
}

// ---------------------------------------------------------------------------------------------------
// trace

std::int64_t StepRun::uncountedBytes() const {
  const std::lock_guard lock(mutex_);
  return uncounted_.mostBytes();
}

scheduler::Trace StepRun::takeTrace() {
  std::lock_guard lock(mutex_);
  scheduler::Trace trace;
  std::uint64_t signature = 0xcbf29ce484222325ULL;
  for (RunOp& op : ops_) {
    mix(signature, op.signature);
    const char* const kept = op.finished ? op.kept_because : kFailed;
    trace.ops.push_back({op.info->name, op.signature, op.time.nanoseconds(), kept == nullptr,
                         op.inputs, op.outputs, kept == nullptr ? "" : kept});
  }
  trace.signature = signature;
  for (const RunValue& value : values_) {
    trace.values.push_back(
        {value.producer, value.block, value.previous_epoch,
         value.overwritten_by < static_cast<OpId>(ops_.size()) ? value.overwritten_by : kNone,
         value.parameter, value.codec.encoded_bytes, value.codec.codec_ns});
  }
  for (const Use& use : uses_) trace.use_value.push_back(use.value);
  options_.log->moveInto(trace);
  return trace;
}

}  // namespace ebbtide::plugin
