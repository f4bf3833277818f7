#include "execute/op_recorder.hpp"

#include <string>
#include <utility>

#include "base/thread_scopes.hpp"
#include "record/racing_writes.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;
using EventKind = scheduler::TraceEvent::Kind;

// Why an op is not to run again: for the report.
constexpr const char* kReadsOtherKind = "reads a tensor that is not dense, plain and on the device";
constexpr const char* kReadsForeign = "reads memory that others may write";
constexpr const char* kNeverReplayed = "a collective, or an operation of another library";
constexpr const char* kInNoOrder = "adds or overwrites in no order on a GPU";
constexpr const char* kRaces = "adds or overwrites in the order in which its threads come";
constexpr const char* kFailedLater = "written by an operation that failed";

// Words of an op's signature that stand for an input without a value to tell, or add to it.
constexpr std::uint64_t kHashedOtherKind = 7;
constexpr std::uint64_t kHashedNumber = 8;
constexpr std::uint64_t kHashedForeign = 9;

}  // namespace

void OpRecorder::hashInput(RunOp& op, int argument, int element, const at::Tensor& tensor) {
  const auto mixBoth = [&op, more = follower_.doesMore()](std::uint64_t word) {
    mixInto(op.signature, word);
    if (more) mixInto(op.aligned_signature, word);
  };
  const auto mixLooks = [&mixBoth, &tensor] {
    for (std::int64_t size : tensor.sizes()) mixBoth(static_cast<std::uint64_t>(size));
    for (std::int64_t stride : tensor.strides()) mixBoth(static_cast<std::uint64_t>(stride));
    mixBoth(static_cast<std::uint64_t>(tensor.scalar_type()));
  };
  if (!isPlain(tensor)) {
    if (isSecondDevice(tensor.device())) kept_values_.keepEverything(kTwoDevices);
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
  const auto isForeign = [&](const Freeing& lock, ValueId value) {
    if (!op.info->writes[argument] || !op.info->overwrites_fully)
      recorder_.noteInput(lock, value, tensor);
    const RunValue& source = values_[value];
    // What is not ours is written by what we do not see: a loader that fills its buffer again.
    return source.foreign && source.producer == kNone && !source.parameter();
  };
  ValueId value = kNone;
  bool foreign = false;
  {
    const Freeing lock(lock_);
    value = values_.find(lock, tensor);
    if (value != kNone) foreign = isForeign(lock, value);
  }
  if (value == kNone) {
    value = recorder_.graphInput(tensor);
    const Freeing lock(lock_);
    foreign = isForeign(lock, value);
  }
  if (foreign) {
    op.kept_because = kReadsForeign;
    mixBoth(kHashedForeign);
  }
  op.inputs.push_back(value);
  if (op.info->writes[argument]) op.written.emplace_back(argument, value);
  mixInto(op.signature, static_cast<std::uint64_t>(value));
  if (follower_.doesMore())
    mixInto(op.aligned_signature, static_cast<std::uint64_t>(follower_.values().planned(value)));
  mixLooks();
}

// Before the op runs: it may write its inputs and draws from the generator.
std::unique_ptr<OpRecord> OpRecorder::recordOp(const RunOp& op,
                                               c10::ArrayRef<const c10::IValue> inputs) const {
  auto record = std::make_unique<OpRecord>();
  record->info = op.info;
  record->state = GlobalState::now();
  record->arguments = freezeArguments(inputs);
  std::size_t next = 0;
  forEachTensor(inputs, [&](int argument, int element, const at::Tensor& tensor) {
    if (isPlain(tensor) && !(op.updates_statistics && op.info->isStatistic(argument)))
      record->inputs.push_back({argument, element, op.inputs.at(next++), TensorView::of(tensor)});
  });
  if (!op.info->seeded) return record;
  record->generator = device_.random.shared().front();
  for (const c10::IValue& value : inputs) {
    if (value.isGenerator() && value.toGenerator().defined())
      record->generator = value.toGenerator();
  }
  std::lock_guard lock(record->generator.mutex());
  const OwnMemoryScope own;
  record->random_state = record->generator.get_state();
  return record;
}

OpId OpRecorder::beginOp(const OpInfo& info, c10::ArrayRef<const c10::IValue> inputs) {
  RunOp* made = nullptr;
  {
    const StepLock::Freeing lock(lock_);
    if (log_) values_.logLastReferences(lock);
    made = &ops_.begin(lock, values_.next(), saved_.next());
  }
  RunOp& op = *made;
  const OpId id = ops_.next() - 1;  // this thread alone adds some
  op.info = &info;
  op.signature = op.aligned_signature = info.hash;
  op.updates_statistics = info.updatesStatistics(inputs);
  op.filled = trust_.leavesUnwritten(info.name);
  if (info.never_replay) op.kept_because = kNeverReplayed;
  op.inputs.reserve(inputs.size());
  if (info.may_differ_on_gpu && !device_.contents.onHost()) op.kept_because = kInNoOrder;
  if (device_.contents.onHost() && racesOnHost(info, inputs)) op.kept_because = kRaces;
  forEachTensor(inputs, [&](int argument, int element, const at::Tensor& tensor) {
    hashInput(op, argument, element, tensor);
  });
  if (id == 0 && saved_.count() == 0) {  // nothing has been dropped yet
    auto its_plan = events_.planFor(op.signature, trains_);
    if (its_plan != follower_.plan()) switchPlan(std::move(its_plan));
  }
  const Plan* plan = follower_.plan().get();
  op.on_plan = isPlanned(op);
  // Nobody looks for such writes in what the plan never runs again.
  if (op.on_plan && plan->ops.written_unseen[follower_.nextOp()]) op.kept_because = kWrittenUnseen;
  op.known_signature = op.on_plan ? plan->ops.signatures[follower_.nextOp()] : op.signature;
  protectWritten(op);
  const bool by_plan = op.on_plan && plan->ops.replayed[follower_.nextOp()];
  const bool by_pressure = keeps_op_records_ && !op.on_plan && op.kept_because == nullptr &&
                           info.repeats_because != nullptr;
  if (by_plan || by_pressure) op.record = recordOp(op, inputs);
  if (log_) op.log_position = log_->add(EventKind::kOpBegin, id);
  const StepLock::Freeing lock(lock_);
  follower_.addOp(op.on_plan);
  return id;
}

// Of an op of the plan nothing need be protected: a replay gives what was there. It does not where
// something unseen wrote.
void OpRecorder::protectWritten(const RunOp& op) {
  const bool planned = follower_.plan() ? op.on_plan : !keeps_op_records_;
  const auto isChanged = [this](ValueId value) {
    const StepLock::Held lock(lock_);
    return values_[value].changed();
  };
  for (const auto& [argument, value] : op.written) {
    if (!planned || isChanged(value)) protection_.protect(value);
  }
}

void OpRecorder::endOp(OpId id, c10::ArrayRef<const c10::IValue> outputs,
                       c10::ArrayRef<at::Tensor> saved, TimeSpan time) {
  RunOp& op = ops_[id];
  op.time = std::move(time);
  // An op that threw has no outputs. What it was to write may be half written, or not at all.
  const bool threw = outputs.empty() && !op.info->handle.schema().returns().empty();
  {
    const StepLock::Freeing lock(lock_);
    op.finished = !threw;  // here: another thread looks for readers (savedReader)
    if (threw) failWrites(lock, op);
    int index = 0;
    forEachTensor(outputs, [&](int, int, const at::Tensor& tensor) {
      recorder_.bindOutput(lock, op, id, index++, tensor);
    });
    if (!threw) recorder_.bindWrittenOver(lock, op, id, index, saved);
    for (const auto& [argument, value] : op.written) {  // written but not returned
      if (values_[value].overwrittenBy() == id || values_[value].parameter()) continue;
      recorder_.overwrite(lock, value, id);
    }
    const bool made_values = op.outputs.size() + op.written.size() > 0;
    if (!made_values && id + 1 == ops_.next()) {
      // A view or a query: no part of the program's memory.
      if (log_) log_->erase(op.log_position);
      noteNone(lock, op);
      ops_.removeLast(lock);
      return;
    }
  }
  follower_.cursor().touch();
  if (log_) log_->add(EventKind::kOpEnd, id);
  if (follower_.follows()) followPlan(op, id);
  if (device_.contents.onHost()) return;
  const StepLock::Freeing lock(lock_);
  values_.dropLate(lock, follower_.offPlan());
}

// Another one than was guessed: the first op's inputs are held, or not, by the wrong guess.
void OpRecorder::switchPlan(std::shared_ptr<const Plan> plan) {
  const StepLock::Freeing lock(lock_);
  follower_.follow(std::move(plan));
  if (log_) events_.noteStepPlan(follower_.plan());
  for (ValueId source = 0; source < values_.next(); ++source) {
    follower_.values().add(true);
    const c10::Storage present = values_[source].stored.storage();
    values_.giveUp(lock, values_.at(lock, source));
    if (present) kept_values_.holdIfKept(lock, source, present);
  }
}

// They were taken for the plan's, and some may be held for it.
void OpRecorder::unplanFrom(const StepLock::Freeing& lock, ValueId first) {
  follower_.values().unplanFrom(first);
  for (auto id = first; id < values_.next(); ++id) {
    const c10::Storage present = values_[id].stored.storage();
    if (!present || values_[id].stored.overwritten()) continue;
    values_.giveUp(lock, values_.at(lock, id));
    kept_values_.holdIfKept(lock, id, present);
  }
}

bool OpRecorder::isPlanned(const RunOp& op) const {
  return follower_.isNextOp(op.signature, op.aligned_signature, op.kept_because != nullptr);
}

void OpRecorder::followPlan(RunOp& op, OpId id) {
  if (!op.on_plan) {
    noteInserted(op, id);
  } else if (!follower_.gaveAsPlanned(id, op.kept_because != nullptr, op.outputs)) {
    const StepLock::Freeing lock(lock_);
    op.on_plan = false;
    unplanFrom(lock, op.first_value);
    kept_values_.leavePlan(lock,
                           op.info->name + " at op " + std::to_string(id) + " gave something else");
  } else {
    const std::vector<ValueId>& drops = follower_.passOp(id);
    if (!follower_.verifies()) drops_.applyDrops(drops);
  }
}

// The program does something that the plan does not know: it is kept as without a plan, which goes
// on with the op that it waits for.
void OpRecorder::noteInserted(RunOp& op, OpId id) {
  const StepLock::Freeing lock(lock_);
  unplanFrom(lock, op.first_value);
  const std::string what = op.info->name + " at op " + std::to_string(id);
  const auto inserted = follower_.noteInserted();
  if (inserted == PlanFollower::Inserted::kTooMany) return kept_values_.leavePlan(lock, what);
  if (inserted == PlanFollower::Inserted::kFirst)
    lines_.debug("not in the plan, which goes on after it: " + what);
}

// It made no values: what it read, or saved, it did as part of the program around it.
void OpRecorder::noteNone(const StepLock::Held&, const RunOp& op) {
  follower_.removeLastOp();
  for (UseId use = op.first_use; use < saved_.next(); ++use)
    follower_.joinLate(use, saved_.valueOf(use));
}

// What it was to write may be half written.
void OpRecorder::failWrites(const StepLock::Freeing& lock, RunOp& op) {
  for (const auto& [argument, value] : op.written) {
    values_.at(lock, value).stored.keep();
    ops_.keep(lock, values_[value].producer, kFailedLater);
  }
  op.written.clear();
}

}  // namespace ebbtide::plugin
