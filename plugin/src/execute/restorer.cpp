#include "execute/restorer.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/elapsed.hpp"
#include "base/message_table.hpp"
#include "execute/poison_scope.hpp"
#include "execute/traced_scope.hpp"
#include "execute/unreadable_spill.hpp"
#include "record/replay_errors.hpp"
#include "runtime/run/run_life.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;

constexpr const char* kDraws = "draws random numbers without saying so";
constexpr int kMaxDepth = 2000;  // recursion through op records, only off the plan

}  // namespace

c10::Storage Restorer::materialize(ValueId id, int depth) {
  ValueState state = ValueState::kDropped;
  OpId producer = kNone;
  RunValue* found = nullptr;
  {
    const StepLock::Freeing lock(lock_);
    found = &values_.at(lock, id);
    RunValue& value = *found;
    if (c10::Storage storage = value.stored.storage()) return storage;
    values_.endWatch(lock, value);
    if (value.stored.held()) return value.stored.held();
    state = value.stored.state();
    producer = value.producer;
    TORCH_CHECK(state != ValueState::kDropped ||
                    (depth < kMaxDepth && producer != kNone && ops_[producer].record),
                lostValue("no op record is left of value ", id, " of ",
                          producer == kNone ? "the program's input" : ops_[producer].info->name));
  }
  if (state == ValueState::kOnHost) return fetch(id);
  if (state == ValueState::kEncoded) return decode(*found);
  replay(producer, depth + 1, {});
  {
    const StepLock::Held lock(lock_);
    if (c10::Storage storage = found->stored.storage()) return storage;
    // Did another thread need the memory?
    const bool taken = found->stored.slot() || found->recomputable();
    TORCH_CHECK(taken, lostValue("a replay did not give value ", id, ", for which it was run"));
  }
  return materialize(id, depth + 1);
}

c10::Storage Restorer::fetch(ValueId id) {
  TORCH_CHECK(!RunLife::inChild(),
              withCode("ebbtide: a forked child cannot run a graph backward whose values its "
                       "parent has spilled to the host. Fork before the forward pass"));
  EventLog::OursScope ours;
  RunValue* found = nullptr;
  std::int64_t bytes = 0;
  {
    const StepLock::Held lock(lock_);
    found = &values_.at(lock, id);
    const RunValue& value = *found;
    if (value.stored.held()) return value.stored.held();
    TORCH_CHECK(value.stored.slot(), lostValue("value ", id, " was spilled, and is not there"));
    bytes = value.stored.slot()->bytes;  // the program may have resized it before it was spilled
  }
  const TracedScope traced(trace_, TracedSpan::Kind::kRestore, nullptr, bytes);
  c10::Storage storage = device_.blocks.allocate(static_cast<std::size_t>(bytes));
  const StepLock::Held lock(lock_);
  RunValue& value = *found;
  if (value.stored.held()) return value.stored.held();
  const auto& slot = value.stored.slot();
  TORCH_CHECK(slot && slot->bytes == bytes,
              lostValue("value ", id, " was spilled, and is not there"));
  if (!spills_.read(*slot, storage.mutable_data()))
    throw UnreadableSpill(spills_.lastError(), device_.contents.onHost());
  noteFetched(lock, id, value);
  value.stored.replace(storage);
  return storage;
}

c10::Storage Restorer::decode(RunValue& value) {
  const TracedScope traced(trace_, TracedSpan::Kind::kDecode, nullptr, value.bytes);
  const auto start = Clock::now();
  const EventLog::OursScope ours;
  c10::Storage storage = device_.blocks.allocate(static_cast<std::size_t>(value.bytes));
  c10::Storage bits;
  {
    const StepLock::Freeing lock(lock_);
    if (value.stored.held()) return value.stored.held();
    bits = value.stored.bits();
  }
  value.stored.code()->decode(bits.data(), value.bytes, storage.mutable_data());
  const StepLock::Freeing lock(lock_);
  if (value.stored.held()) return value.stored.held();
  value.stored.replace(storage);
  counters_.addCode(1, nanosecondsSince(start));
  return storage;
}

// A fetch of the plan: the value stays until the plan drops it.
void Restorer::fetchCopy(ValueId planned) {
  replaying_ = kNone;
  const ValueId id = stepsValue(planned);
  {
    // Written over since, beside the plan: its uses read what is there now, replays what was
    // before.
    const StepLock::Freeing lock(lock_);
    if (values_[id].stored.successor() != kNone || values_[id].pristine()) return;
  }
  const auto start = Clock::now();
  c10::Storage storage = materialize(id, 0);
  if (follower_.plan()->values.on_host[planned]) counters_.addOffload(0, nanosecondsSince(start));
  const StepLock::Freeing lock(lock_);
  RunValue& value = values_.at(lock, id);
  value.stored.hold(std::move(storage));
  value.stored.endAwait();
  value.noteFetched();
}

// Of a slot that has been read.
void Restorer::noteFetched(const StepLock::Held& lock, ValueId id, RunValue& value) {
  if (kept_values_.staysOnHost(lock, id, value)) {
    value.stored.keepSlot();
  } else {
    values_.giveUpSlot(lock, value);
  }
}

void Restorer::replay(OpId id, int depth, const std::vector<ValueId>& given_up) {
  RunOp* found = nullptr;
  {
    const StepLock::Freeing lock(lock_);
    found = &ops_[id];
    TORCH_CHECK(found->record, lostValue("no op record of ", found->info->name, " was recorded"));
    // The program may still hold everything that this would compute, or it is kept on the host.
    bool alive = !verifies(follower_, *found);
    for (const auto& [index, output] : found->output_of) {
      RunValue& value = values_.at(lock, output);
      const c10::Storage storage = value.stored.storage();
      if (!storage) values_.endWatch(lock, value);
      alive = alive && (storage || value.stored.held() || value.isKeptOnHost());
    }
    if (alive) {
      for (const auto& [index, output] : found->output_of) {
        RunValue& value = values_.at(lock, output);
        if (!follower_.values().unplanned(output) || value.isNeeded()) value.stored.holdIfAlive();
        value.stored.endAwait();
        if (depth == 0) value.noteThere();
      }
      return;
    }
  }
  RunOp& op = *found;
  const EventLog::OursScope ours;
  const TracedScope traced(trace_, TracedSpan::Kind::kRecompute, op.info->name.c_str());
  const auto start = Clock::now();
  try {
    const FillPattern fill = fillOf(op);
    const OpRecord::Outputs outputs = runAgain(op, id, depth, given_up, fill);
    const auto& [equal, second] = compareReplay(op, id, depth, outputs, fill);
    bool compared = true;
    for (std::size_t i = 0; i < op.output_of.size(); ++i) {
      const auto& [index, output] = op.output_of[i];
      adoptOutput(op, output, outputs[index], equal[i], second);
      const StepLock::Freeing lock(lock_);
      RunValue& value = values_.at(lock, output);
      compared = compared && (equal[i].has_value() || value.uninitialised());
      if (depth == 0) value.noteReplayed();  // by the plan
    }
    op.compared = compared && op.compared.value_or(true);
  } catch (const std::exception& error) {
    if (follower_.verifies() || endsReplay(op, error)) throw;
    return;
  }
  replaying_ = kNone;
  counters_.addReplay(op.info->number, nanosecondsSince(start));
  if (op.on_plan) return;
  counters_.addOnlineReplay();
  giveUpInputs(op);
}

// What its memory is filled with before it runs again.
FillPattern Restorer::fillOf(const RunOp& op) const {
  if (op.filled) return kZeros;
  const bool as_planned = op.outputs.empty() || !follower_.values().unplanned(op.outputs.front());
  return follower_.verifies() && as_planned ? FillPattern(PoisonScope::nextPattern())
                                            : std::nullopt;
}

OpRecord::Outputs Restorer::runAgain(const RunOp& op, OpId id, int depth,
                                     const std::vector<ValueId>& given_up, FillPattern fill) {
  // All inputs first: restoring one may run other ops, which an in-place one must not see half
  // done.
  std::vector<c10::Storage> inputs;
  for (const OpRecord::Input& input : op.record->inputs) {
    replaying_ = id;
    inputs.push_back(replayInput(input, id, depth));
  }
  replaying_ = id;
  std::size_t next = 0;
  const auto take = [&](const OpRecord::Input& input) {
    c10::Storage storage = std::move(inputs.at(next++));
    if (!op.info->writes[input.argument]) return storage;
    const bool taken = std::find(given_up.begin(), given_up.end(), input.value) != given_up.end();
    return writableInput(input.value, std::move(storage), taken);
  };
  std::optional<PoisonScope> filled;
  if (fill) filled.emplace(device_.blocks, *fill);
  const bool as_planned = op.outputs.empty() || !follower_.values().unplanned(op.outputs.front());
  if (!follower_.verifies() || !as_planned) return op.record->replay(take);
  // An op that draws random numbers without saying so is found here, and has drawn nothing after.
  std::deque<RandomStateScope> random;
  for (const at::Generator& generator : device_.random.shared())
    random.emplace_back(generator, at::Tensor());
  OpRecord::Outputs outputs = op.record->replay(take);
  bool draws = random.front().drawn() && !op.record->random_state.defined();
  for (std::size_t i = 1; i < random.size(); ++i) draws = draws || random[i].drawn();
  TORCH_CHECK(!draws, op.info->name, " ", kDraws);
  return outputs;
}

// The contents that the op read when it ran first. Whoever changed them since, a replay must not
// see it: such an op is at fault itself, not one that gives no input.
c10::Storage Restorer::replayInput(const OpRecord::Input& input, OpId reader, int depth) {
  const ValueId id = input.value;
  c10::Storage present;  // freed after the lock, if nobody else holds it then
  {
    const StepLock::Freeing lock(lock_);
    RunValue& value = values_.at(lock, id);
    // A verification step compares what the reader gives, all bytes of it.
    const bool trusts = !verifies(follower_, ops_[reader]);
    const bool changed = trusts && value.changedSince(reader);
    if (value.pristine() && !changed) return value.pristine();
    present = value.stored.storage();
    const bool written =
        changed || value.stored.stale() ||
        (!value.stored.replaced() && present &&
         (!value.intact() || (trusts && looksWritten(lock, input, value, present))));
    const bool resized = present && value.resized(present);
    if (resized && value.guarded()) {
      values_.endGuard(lock, value);
      if (value.pristine()) return value.pristine();
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

// By something unseen, since the program read it last? It takes a look, if one is due.
bool Restorer::looksWritten(const StepLock::Held&, const OpRecord::Input& input, RunValue& value,
                            const c10::Storage& present) const {
  if (!value.expected() || !value.print() || value.isElsewhere(present)) return false;
  const bool due = value.isLookDueInReplay(input.view.readBytes(), value.covered().bytes());
  if (!due || verifier_.matches(value, present)) return false;
  value.noteChanged(ops_.next());  // the look is taken: a second try must know
  return true;
}

// A storage that an in-place replay may write: the copy itself when the plan gives it up next and
// nobody else holds it, else a duplicate.
c10::Storage Restorer::writableInput(ValueId id, c10::Storage storage, bool given_up) {
  {
    const StepLock::Held lock(lock_);
    RunValue& value = values_.at(lock, id);
    given_up = given_up || (value.recomputable() && value.readers() == 1);  // this op
    const bool ours_alone =
        value.stored.held() && value.liveUses() == 0 && storage.use_count() == 2;
    if (given_up && ours_alone) {
      value.stored.handOver();  // `storage` has it
      return storage;
    }
  }
  return duplicateStorage(storage);
}

// Not of a verification step. False: what it was run for can be had without it. Else the replay is
// at fault, or what Ebbtide gave it to read: the script's own call did not fail.
bool Restorer::endsReplay(const RunOp& op, const std::exception& error) {
  if (isOutOfMemory(error)) return true;
  // Else that of an input, which is what cannot be had.
  const bool itself = !isOurs(error);
  if (itself) trust_.reject(op.info->name, op.known_signature, messageOf(error));
  {
    const StepLock::Freeing lock(lock_);
    const auto elsewhere = [this](const auto& output) {
      const RunValue& value = values_[output.second];
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

void Restorer::adoptOutput(const RunOp& op, ValueId id, const at::Tensor& output,
                           std::optional<bool> equal, ReplayTrust::SecondReplay second) {
  RunValue* found = nullptr;
  {
    const StepLock::Held lock(lock_);
    found = &values_.at(lock, id);
  }
  RunValue& value = *found;
  const c10::Storage& replayed = output.storage();
  const bool verified = verifies(follower_, op);
  if (!verified) {
    if (value.isKeptOnHost()) return;  // to be fetched: its op would not repeat it
    const StepLock::Freeing lock(lock_);
    if (follower_.values().unplanned(id) && !value.isNeeded()) return;
    // The copy that is there stays, ours or the program's: this one was run for another output.
    if (c10::Storage present = value.stored.storage()) {
      values_.holdPresent(lock, value, present);
      lock.giveUp(std::move(present));  // freed without the lock, if it is the last
      return;
    }
  }
  if (verified) {
    if (equal) trust_.noteCompared(op.info->name, op.known_signature, *equal, second);
  } else if (value.print() && !verifier_.repeats(value, replayed)) {
    return refuseOutput(op, id);
  }
  const StepLock::Freeing lock(lock_);
  if (equal.has_value() && !*equal) {
    value.reject();
    return;
  }
  TORCH_CHECK(static_cast<std::int64_t>(replayed.nbytes()) >= value.bytes || value.uninitialised(),
              withCode(c10::str("ebbtide: ", op.info->name,
                                " gave other results when it was run again: a smaller tensor. "
                                "EBBTIDE=1 trains without dropping anything")));
  if (value.stored.held()) return;
  values_.giveUpSlot(lock, value);
  value.stored.replace(replayed);
}

// The original is gone: better no number than a wrong one, where anything still reads it.
void Restorer::refuseOutput(const RunOp& op, ValueId id) {
  trust_.reject(op.info->name, op.known_signature, "it gave other results");
  if (op.info->repeats_because == nullptr) trust_.distrust(op.info->name);
  {
    const StepLock::Held lock(lock_);
    RunValue& value = values_.at(lock, id);
    const bool elsewhere = value.stored.slot() || value.stored.bits();  // it comes from there
    if (elsewhere || !isReadAgain(lock, id, value)) return value.reject();
  }
  // An op of the plan was compared before the plan was trusted.
  const char* const before =
      op.on_plan ? ", although it repeated exactly in an earlier step"
                 : ", and no earlier step had compared it: it does not repeat, or something that "
                   "Ebbtide did not see wrote into what it gave or reads";
  TORCH_CHECK(
      false,
      withCode(c10::str(
          "ebbtide: ", op.info->name, " gave other results when it was run again", before,
          ". This step cannot be finished. Its results are kept from now on; EBBTIDE=1 trains "
          "without dropping anything")));
}

// By a saved tensor, or a replay or fetch to come.
bool Restorer::isReadAgain(const StepLock::Held& lock, ValueId id, const RunValue& value) const {
  return value.isNeeded() || kept_values_.fetchedLater(lock, id, value) ||
         kept_values_.readByPlan(lock, id) || kept_values_.isAskedFor(lock, id);
}

// After a replay: what was computed for it alone.
void Restorer::giveUpInputs(const RunOp& op) {
  const StepLock::Freeing lock(lock_);
  for (const ValueId input : op.inputs) {
    RunValue& value = values_.at(lock, input);
    const bool for_it_alone = value.recomputable() && value.liveUses() == 0 && value.readers() == 1;
    if (for_it_alone && value.stored.held().use_count() == 1) values_.giveUp(lock, value);
  }
}

void Restorer::replayPlanned(OpId planned, const std::vector<ValueId>& given_up) {
  replaying_ = kNone;
  OpId op = kNone;
  {
    const StepLock::Held lock(lock_);
    op = follower_.stepsOp(planned);
  }
  replay(op, 0, given_up);
}

ValueId Restorer::stepsValue(ValueId planned) const {
  const StepLock::Held lock(lock_);
  return follower_.values().step(planned);
}

}  // namespace ebbtide::plugin
