// Bringing values back: the plan's prelude before a backward event, and on-demand restoring when
// the program leaves the plan.
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>

#include "base/elapsed.hpp"
#include "base/message_table.hpp"
#include "base/thread_scopes.hpp"
#include "device/fingerprint.hpp"
#include "execute/poison_scope.hpp"
#include "execute/step_run_state.hpp"
#include "execute/traced_scope.hpp"
#include "record/replay_errors.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::Step;
using EventKind = scheduler::TraceEvent::Kind;

constexpr const char* kDraws = "draws random numbers without saying so";
constexpr int kMaxDepth = 2000;  // recursion through recipes, only off the plan

}  // namespace

c10::Storage duplicateStorage(const c10::Storage& storage) {
  EventLog::OursScope ours;
  const TrainingDevice& device = trainingDevice();
  c10::Storage duplicate = device.blocks.allocate(storage.nbytes());
  device.contents.copy(duplicate.mutable_data(), storage.data(),
                       static_cast<std::int64_t>(storage.nbytes()));
  return duplicate;
}

c10::Storage StepRun::unpack(UseId use) {
  noteBackward();
  if (finished_) session_.lateBackwards().note(finished_by_hint_);
  if (!device_.contents.onHost()) {
    const Locked lock(*this);
    dropLate();
  }
  if (options_.log) {
    const Locked lock(*this);
    noteNaturalDeaths();
    options_.log->add(EventKind::kUnpack, use);
  }
  if (torch::autograd::get_current_graph_task_id() >= 0)
    kept_graphs_.beginUnpack(torch::autograd::get_current_graph_task_keep_graph());
  if (followsPlan(use)) {
    std::int32_t event = kNone;
    {
      std::lock_guard lock(mutex_);
      event = follower_.eventOf(use, uses_[use].visits);
    }
    if (event != follower_.cursor().current()) {
      finishEvent();
      if (!follower_.cursor().isNext(event)) {
        std::lock_guard lock(mutex_);
        leavePlan("backward event " + std::to_string(event) + " instead of " +
                  std::to_string(follower_.cursor().next()));
      }
      if (!follower_.offPlan()) runPrelude(event);
    }
  }
  ValueId value = kNone;
  {
    std::lock_guard lock(mutex_);
    noteLeftOver(use);
    value = valueOf(use);
    if (value != kNone) values_[value].touched = follower_.cursor().boundary();
  }
  return materialize(value, 0);
}

// What the program does beside its plan is no event of it.
bool StepRun::followsPlan(UseId use) const {
  if (!follower_.follows()) return false;
  std::lock_guard lock(mutex_);
  return follower_.followsUse(use);
}

// Called with mutex_ held. Is it of a graph that is kept, though the plan reads it no more? The
// program may run it again all the same.
void StepRun::noteLeftOver(UseId id) {
  Use& use = uses_[id];
  const bool left = kept_graphs_.keepsNow() && follower_.isUnpackedFor(id, use.visits);
  if (std::exchange(use.left_over, left) != left) kept_graphs_.addLeftOver(left ? 1 : -1);
}

// Has all that the event's replays and fetches begin with been there in this step?
bool StepRun::canRun(const std::vector<Step>& prelude) const {
  std::lock_guard lock(mutex_);
  return follower_.canRun(prelude);
}

OpId StepRun::stepsOp(OpId planned) const {
  std::lock_guard lock(mutex_);
  return follower_.stepsOp(planned);
}

ValueId StepRun::stepsValue(ValueId planned) const {
  std::lock_guard lock(mutex_);
  return follower_.stepsValue(planned);
}

void StepRun::runPrelude(std::int32_t event) {
  follower_.cursor().begin(event);
  if (!runDueWaits(event)) return;
  const std::vector<Step>& steps = follower_.preludeOf(event);
  if (!canRun(steps)) {
    std::lock_guard lock(mutex_);
    leavePlan("backward event " + std::to_string(event) + " came too early");
    return;
  }
  if (runSteps(steps)) follower_.cursor().passPrelude();
}

// False: a replay failed, and the plan with it.
bool StepRun::runSteps(const std::vector<Step>& steps) {
  std::vector<ValueId> given_up;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind == Step::Kind::kDrop) {
      applyDrops(steps[i].id);
      continue;
    }
    given_up.clear();
    for (std::size_t j = i + 1; j < steps.size() && steps[j].kind == Step::Kind::kDrop; ++j) {
      given_up.push_back(stepsValue(steps[j].id));
    }
    replaying_ = kNone;
    std::optional<TrialScope> trial;
    if (follower_.rehearses()) trial.emplace();
    try {
      if (steps[i].kind == Step::Kind::kFetch) {
        fetchCopy(steps[i].id);
      } else {
        replay(stepsOp(steps[i].id), 0, given_up);
      }
    } catch (const std::exception& error) {
      if (follower_.rehearses()) {
        endRehearsal(error);  // the originals are at hand: it costs nothing but the plan
        return false;
      }
      if (isOutOfMemory(error)) throw;
      // What is read may be there all the same: each is asked for on its own from now on.
      std::lock_guard lock(mutex_);
      leavePlan(messageOf(error));
      return false;
    }
  }
  return true;
}

// The event's saved values are with the node by now: what the plan gives up after it can go.
void StepRun::finishEvent() {
  if (const std::vector<ValueId>* const drops = follower_.endEvent()) applyDrops(*drops);
}

c10::Storage StepRun::materialize(ValueId id, int depth) {
  ValueState state = ValueState::kDropped;
  OpId producer = kNone;
  RunValue* found = nullptr;
  {
    const Locked lock(*this);
    found = &values_[id];
    RunValue& value = *found;
    if (c10::Storage storage = value.stored.storage()) return storage;
    endWatch(value);
    if (value.stored.held()) return value.stored.held();
    state = value.stored.state();
    producer = value.producer;
    TORCH_CHECK(state != ValueState::kDropped ||
                    (depth < kMaxDepth && producer != kNone && ops_[producer].recipe),
                lostValue("no recipe is left of value ", id, " of ",
                          producer == kNone ? "the program's input" : ops_[producer].info->name));
  }
  if (state == ValueState::kOnHost) return fetch(id);
  if (state == ValueState::kEncoded) return decode(*found);
  replay(producer, depth + 1, {});
  {
    std::lock_guard lock(mutex_);
    if (c10::Storage storage = found->stored.storage()) return storage;
    const bool taken = found->stored.slot() || found->recomputable;  // another thread needed memory
    TORCH_CHECK(taken, lostValue("a replay did not give value ", id, ", for which it was run"));
  }
  return materialize(id, depth + 1);
}

c10::Storage StepRun::fetch(ValueId id) {
  TORCH_CHECK(!Session::inChild(),
              withCode("ebbtide: a forked child cannot run a graph backward whose values its "
                       "parent has spilled to the host. Fork before the forward pass"));
  EventLog::OursScope ours;
  RunValue* found = nullptr;
  std::int64_t bytes = 0;
  {
    std::lock_guard lock(mutex_);
    found = &values_[id];
    const RunValue& value = *found;
    if (value.stored.held()) return value.stored.held();
    TORCH_CHECK(value.stored.slot(), lostValue("value ", id, " was spilled, and is not there"));
    bytes = value.stored.slot()->bytes;  // the program may have resized it before it was spilled
  }
  const TracedScope traced(session_.runTrace(), TracedSpan::Kind::kRestore, nullptr, bytes);
  c10::Storage storage = device_.blocks.allocate(static_cast<std::size_t>(bytes));
  std::lock_guard lock(mutex_);
  RunValue& value = *found;
  if (value.stored.held()) return value.stored.held();
  const auto& slot = value.stored.slot();
  TORCH_CHECK(
      slot && slot->bytes == bytes && session_.spills().read(*slot, storage.mutable_data()),
      withCode("ebbtide: the spill file could not be read back: " + session_.spills().lastError()));
  noteFetched(id, value);
  value.stored.replace(storage);
  return storage;
}

// A storage that an in-place replay may write: the copy itself when the plan gives it up next and
// nobody else holds it, else a duplicate.
c10::Storage StepRun::writableInput(ValueId id, c10::Storage storage, bool given_up) {
  {
    std::lock_guard lock(mutex_);
    RunValue& value = values_[id];
    given_up = given_up || (value.recomputable && value.readers == 1);  // this op
    const bool ours_alone = value.stored.held() && value.live_uses == 0 && storage.use_count() == 2;
    if (given_up && ours_alone) {
      value.stored.handOver();  // `storage` has it
      return storage;
    }
  }
  return duplicateStorage(storage);
}

// The contents that the op read when it ran first. Whoever changed them since, a replay must not
// see it: such an op is at fault itself, not one that gives no input.
c10::Storage StepRun::replayInput(ValueId id, int depth) {
  c10::Storage present;  // freed after the lock, if nobody else holds it then
  {
    const Locked lock(*this);
    RunValue& value = values_[id];
    if (value.pristine) return value.pristine;
    present = value.stored.storage();
    const bool written =
        value.stored.stale() || (!value.stored.replaced() && present && !value.intact());
    const bool resized = present && value.resized(present);
    if (resized && value.guard != 0) {
      endGuard(value);
      if (value.pristine) return value.pristine;
    }
    TORCH_CHECK(!written && !resized,
                withCode(c10::str("ebbtide: a tensor that is needed to compute a dropped one again "
                                  "was ",
                                  resized ? "resized" : "modified in place by something unseen",
                                  ". EBBTIDE=1 trains without dropping anything")));
  }
  replaying_ = kNone;
  return materialize(id, depth);
}

bool StepRun::isNeeded(const RunValue& value) noexcept {
  return value.live_uses > 0 || value.readers > 0;
}

bool StepRun::keptOnHost(const RunValue& value) noexcept {
  return value.stored.kept() && value.stored.slot().has_value();
}

void StepRun::replay(OpId id, int depth, const std::vector<ValueId>& given_up) {
  RunOp* found = nullptr;
  {
    const Locked lock(*this);
    found = &ops_[id];
    TORCH_CHECK(found->recipe, lostValue("no recipe of ", found->info->name, " was recorded"));
    // The program may still hold everything that this would compute, or it is kept on the host.
    bool alive = !rehearses(*found);
    for (const auto& [index, output] : found->output_of) {
      RunValue& value = values_[output];
      const c10::Storage storage = value.stored.storage();
      if (!storage) endWatch(value);
      alive = alive && (storage || value.stored.held() || keptOnHost(value));
    }
    if (alive) {
      for (const auto& [index, output] : found->output_of) {
        RunValue& value = values_[output];
        if (!follower_.unplanned(output) || isNeeded(value)) value.stored.holdIfAlive();
        value.stored.endAwait();
        if (depth == 0) value.made_again = true;
      }
      return;
    }
  }
  RunOp& op = *found;
  const EventLog::OursScope ours;
  const TracedScope traced(session_.runTrace(), TracedSpan::Kind::kRecompute,
                           op.info->name.c_str());
  const auto start = Clock::now();
  try {
    const FillPattern fill = fillOf(op);
    const Recipe::Outputs outputs = runAgain(op, id, depth, given_up, fill);
    const std::vector<std::optional<bool>> equal = compareReplay(op, id, depth, outputs, fill);
    bool compared = true;
    for (std::size_t i = 0; i < op.output_of.size(); ++i) {
      const auto& [index, output] = op.output_of[i];
      adoptOutput(op, output, outputs[index], equal[i]);
      const Locked lock(*this);
      RunValue& value = values_[output];
      compared = compared && (equal[i].has_value() || value.uninitialised);
      if (depth == 0) value.made_again = !value.rejected;  // by the plan
    }
    op.compared = compared;
  } catch (const std::exception& error) {
    if (follower_.rehearses() || endsReplay(op, error)) throw;
    return;
  }
  replaying_ = kNone;
  session_.counters().addReplay(op.info->number, nanosecondsSince(start));
  if (op.on_plan) return;
  session_.counters().addOnlineReplay();
  giveUpInputs(op);
}

// What its memory is filled with before it runs again.
FillPattern StepRun::fillOf(const RunOp& op) const {
  if (op.filled) return kZeros;
  const bool as_planned = op.outputs.empty() || !follower_.unplanned(op.outputs.front());
  return follower_.rehearses() && as_planned ? FillPattern(PoisonScope::nextPattern())
                                             : std::nullopt;
}

Recipe::Outputs StepRun::runAgain(const RunOp& op, OpId id, int depth,
                                  const std::vector<ValueId>& given_up, FillPattern fill) {
  // All inputs first: restoring one may run other ops, which an in-place one must not see half
  // done.
  std::vector<c10::Storage> inputs;
  for (const ValueId input : op.inputs) {
    replaying_ = id;
    inputs.push_back(replayInput(input, depth));
  }
  replaying_ = id;
  std::size_t next = 0;
  const auto take = [&](const Recipe::Input& input) {
    c10::Storage storage = std::move(inputs.at(next++));
    if (!op.info->writes[input.argument]) return storage;
    const bool taken = std::find(given_up.begin(), given_up.end(), input.value) != given_up.end();
    return writableInput(input.value, std::move(storage), taken);
  };
  std::optional<PoisonScope> filled;
  if (fill) filled.emplace(device_.blocks, *fill);
  const bool as_planned = op.outputs.empty() || !follower_.unplanned(op.outputs.front());
  if (!follower_.rehearses() || !as_planned) return op.recipe->replay(take);
  // An op that draws random numbers without saying so is found here, and has drawn nothing after.
  std::deque<RandomStateScope> random;
  for (const at::Generator& generator : device_.random.shared())
    random.emplace_back(generator, at::Tensor());
  Recipe::Outputs outputs = op.recipe->replay(take);
  bool draws = random.front().drawn() && !op.recipe->random_state.defined();
  for (std::size_t i = 1; i < random.size(); ++i) draws = draws || random[i].drawn();
  TORCH_CHECK(!draws, op.info->name, " ", kDraws);
  return outputs;
}

// Not of a rehearsal. False: what it was run for can be had without it. Else the replay is at
// fault, or what Ebbtide gave it to read: the script's own call did not fail.
bool StepRun::endsReplay(const RunOp& op, const std::exception& error) {
  if (isOutOfMemory(error)) return true;
  // Else that of an input, which is what cannot be had.
  const bool itself = !isOurs(error);
  if (itself) session_.replayTrust().reject(op.info->name, op.known_signature, messageOf(error));
  {
    const Locked lock(*this);
    const auto elsewhere = [this](const auto& output) {
      RunValue& value = values_[output.second];
      return value.stored.storage() || value.stored.slot() || value.stored.bits();
    };
    if (std::all_of(op.output_of.begin(), op.output_of.end(), elsewhere)) return false;
  }
  TORCH_CHECK(
      !itself,
      withCode(c10::str(
          "ebbtide: the replay of ", op.info->name,
          " failed, though the operation itself did not: ", messageOf(error),
          ". That is Ebbtide's fault and not the script's: please report it. This step cannot be "
          "finished; EBBTIDE=1 trains without dropping anything")));
  return true;
}

void StepRun::adoptOutput(const RunOp& op, ValueId id, const at::Tensor& output,
                          std::optional<bool> equal) {
  RunValue* found = nullptr;
  {
    std::lock_guard lock(mutex_);
    found = &values_[id];
  }
  RunValue& value = *found;
  const c10::Storage& replayed = output.storage();
  const bool rehearsed = rehearses(op);
  if (!rehearsed) {
    if (keptOnHost(value)) return;  // to be fetched: its op would not repeat it
    const Locked lock(*this);
    if (follower_.unplanned(id) && !isNeeded(value)) return;
    // The copy that is there stays, ours or the program's: this one was run for another output.
    if (c10::Storage present = value.stored.storage()) {
      endWatch(value);
      value.stored.hold(std::move(present));
      return;
    }
  }
  if (rehearsed) {
    if (equal) session_.replayTrust().noteCompared(op.info->name, op.known_signature, *equal);
  } else if (value.print && !verifier_.repeats(value, replayed)) {
    // The original is gone: better no number than a wrong one.
    session_.replayTrust().reject(op.info->name, op.known_signature, "it gave other results");
    if (op.info->repeats_because == nullptr) session_.replayTrust().distrust(op.info->name);
    {
      const Locked lock(*this);
      if (value.stored.slot() || value.stored.bits()) {  // it comes from there
        value.rejected = true;
        return;
      }
    }
    TORCH_CHECK(
        false,
        withCode(c10::str(
            "ebbtide: ", op.info->name,
            " gave other results when it was run again, "
            "although it repeated exactly in an earlier step: this step cannot be finished. "
            "Its results are kept from now on; EBBTIDE=1 trains without dropping anything")));
  }
  const Locked lock(*this);
  if (equal.has_value() && !*equal) {
    value.rejected = true;
    return;
  }
  TORCH_CHECK(static_cast<std::int64_t>(replayed.nbytes()) >= value.bytes || value.uninitialised,
              withCode(c10::str("ebbtide: ", op.info->name,
                                " gave other results when it was run again: a smaller tensor. "
                                "EBBTIDE=1 trains without dropping anything")));
  if (value.stored.held()) return;
  giveUpSlot(value);
  value.stored.replace(replayed);
}

}  // namespace ebbtide::plugin
