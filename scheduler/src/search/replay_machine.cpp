#include "search/replay_machine.hpp"

#include <algorithm>
#include <stdexcept>

namespace ebbtide::scheduler {

ReplayMachine::ReplayMachine(const Graph& graph)
    : graph_(graph),
      rules_(graph),
      positions_(replayPositions(graph)),
      forward_need_(graph.values.size(), kNone),
      repeatable_(graph.ops.size(), false),
      ran_(graph.ops.size(), false),
      program_holds_(graph.values.size(), false),
      overwritten_at_(graph.ops.size()),
      last_references_(graph.ops.size()),
      current_(graph.values.size(), kNone),
      ahead_(graph.ops.size(), kNone),
      cone_(graph.ops.size()) {
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    for (ValueId output : graph.ops[op].outputs) {
      if (rules_.droppable(output)) repeatable_[op] = true;
    }
  }
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const ValueId value = static_cast<ValueId>(id);
    const Value& v = graph.values[id];
    if (v.overwritten_by != kNone) overwritten_at_[v.overwritten_by].push_back(value);
    if (v.last_reference != kNone) last_references_[v.last_reference].push_back(value);
    if (v.producer != kNone) continue;
    if (!v.pinned) beginCopy(value, true);
    setProgramHolds(value, v.last_reference != kNone);
  }
  if (graph.isRecordedStep()) setForwardNeeds();
}

void ReplayMachine::setForwardNeeds() {
  for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
    const OpId op = static_cast<OpId>(id);
    if (graph_.ops[id].backward) continue;
    for (ValueId input : graph_.ops[id].inputs) {
      if (!graph_.programServes(op, input)) forward_need_[input] = op;
    }
  }
}

bool ReplayMachine::mayReplay() const {
  return static_cast<std::size_t>(next_) == positions_.size() || positions_[next_];
}

// Backward ops that read nothing and ops that wait, as far as replays may come after them: their
// turn is now.
void ReplayMachine::passGaps() {
  OpId open = next_;
  while (static_cast<std::size_t>(open) < positions_.size() && !positions_[open]) {
    if (!graph_.ops[open].backward && !graph_.ops[open].waits) return;
    ++open;
  }
  while (static_cast<std::size_t>(open) < positions_.size() && next_ < open) {
    ahead_[next_] = phase_;
    firstRun(next_);
  }
}

bool ReplayMachine::servedByProgram(OpId op, ValueId input) const {
  return !ran_[op] && graph_.programServes(op, input);
}

bool ReplayMachine::lacks(OpId op, ValueId input) const {
  const Value& value = graph_.values[input];
  if (value.pinned) return value.producer != kNone && !ran_[value.producer];
  return current_[input] == kNone && !servedByProgram(op, input);
}

// Could a replay now serve a later op? Beyond its outputs' last need its inputs may be overwritten.
bool ReplayMachine::useful(OpId op) const {
  if (!repeatable_[op]) return false;
  const auto& outputs = graph_.ops[op].outputs;
  return graph_.any_order || std::any_of(outputs.begin(), outputs.end(), [&](ValueId output) {
           return rules_.droppable(output) && rules_.lastNeed(output) >= next_;
         });
}

void ReplayMachine::run(OpId op) {
  if (!ran_[op]) {
    while (!graph_.any_order && next_ < op) {
      ahead_[next_] = phase_;
      runMissing(next_);
      firstRun(next_);
    }
    runMissing(op);
    firstRun(op);
    return;
  }
  if (!useful(op)) return;
  passGaps();
  if (!mayReplay()) return;
  // Run ahead of the order asked for, which wanted this op run once up to now.
  const bool recent = ahead_[op] == phase_;
  ahead_[op] = kNone;
  const auto& outputs = graph_.ops[op].outputs;
  if (recent && std::all_of(outputs.begin(), outputs.end(), [&](ValueId output) {
        return graph_.values[output].pinned || hasCopy(output);
      })) {
    return;
  }
  runMissing(op);
  replay(op);
}

// Runs, inputs first, the ops that make every missing input of `op`.
void ReplayMachine::runMissing(OpId op) {
  cone_.begin();
  const auto require = [this](OpId reader, ValueId input) {
    if (!lacks(reader, input)) return;
    const OpId producer = graph_.values[input].producer;
    if (producer == kNone || (ran_[producer] && !repeatable_[producer])) {
      throw std::logic_error("value " + std::to_string(input) + " is gone and has no op record");
    }
    cone_.require(producer);
  };
  for (ValueId input : graph_.ops[op].inputs) require(op, input);
  for (OpId next = cone_.next(); next != kNone; next = cone_.next()) {
    for (ValueId input : graph_.ops[next].inputs) require(next, input);
  }
  for (OpId maker : cone_.ops()) ran_[maker] ? replay(maker) : firstRun(maker);
}

void ReplayMachine::beginRun(OpId op, bool first) {
  log_.beginRun(op, first);
  for (ValueId input : graph_.ops[op].inputs) {
    if (graph_.values[input].pinned || servedByProgram(op, input)) continue;
    log_.read(current_[input]);
  }
}

void ReplayMachine::firstRun(OpId op) {
  beginRun(op, true);
  overwrite(op);
  for (ValueId output : graph_.ops[op].outputs) {
    if (!graph_.values[output].pinned) beginCopy(output, true);
    setProgramHolds(output, graph_.values[output].last_reference >= op);
  }
  for (ValueId value : last_references_[op]) setProgramHolds(value, false);
  ran_[op] = true;
  if (graph_.ops[op].backward) ++phase_;
  while (static_cast<std::size_t>(next_) < ran_.size() && ran_[next_]) ++next_;
}

void ReplayMachine::replay(OpId op) {
  beginRun(op, false);
  for (ValueId output : graph_.ops[op].outputs) {
    if (graph_.values[output].pinned) continue;
    if (hasCopy(output) && !rules_.droppable(output)) {
      log_.makeAgain(current_[output]);
    } else {
      beginCopy(output, false);
    }
  }
}

void ReplayMachine::beginCopy(ValueId value, bool first) {
  setCopy(value, log_.make(value, first));
}

// The program's write ends its own copy and a replay's, unless both exist.
void ReplayMachine::overwrite(OpId op) {
  for (ValueId value : overwritten_at_[op]) {
    if (hasCopy(value)) {
      const std::int32_t copy = current_[value];
      const bool apart = !log_.isFirst(copy) && graph_.values[value].last_reference >= op;
      if (!apart) log_.overwrite(copy);
      setCopy(value, kNone);
    }
    setProgramHolds(value, false);
  }
}

void ReplayMachine::forget(ValueId value) {
  if (mayForget(value)) setCopy(value, kNone);
}

Bytes ReplayMachine::footprint(ValueId value) const {
  const Value& v = graph_.values[value];
  if (v.pinned) return 0;
  const bool held = hasCopy(value);
  const bool same = held && log_.isFirst(current_[value]);
  return (held ? v.bytes : 0) + (program_holds_[value] && !same ? v.bytes : 0);
}

void ReplayMachine::setCopy(ValueId value, std::int32_t copy) {
  live_ -= footprint(value);
  current_[value] = copy;
  live_ += footprint(value);
}

void ReplayMachine::setProgramHolds(ValueId value, bool holds) {
  live_ -= footprint(value);
  program_holds_[value] = holds;
  live_ += footprint(value);
}

Bytes ReplayMachine::bytesToRun(OpId id) const {
  const Op& op = graph_.ops[id];
  Bytes bytes = live_;
  for (ValueId output : op.outputs) {
    const Value& value = graph_.values[output];
    if (!value.pinned) bytes += value.bytes;
    // A first run takes the old epoch's bytes over.
    if (!ran_[id] && value.previous_epoch != kNone) bytes -= footprint(value.previous_epoch);
  }
  if (!ran_[id]) return bytes + op.fixed_bytes;
  const Op& next = graph_.ops[std::min<std::size_t>(next_, graph_.ops.size() - 1)];
  return bytes + op.workspace_bytes + next.fixedAtStart();
}

Schedule ReplayMachine::finish() {
  for (std::size_t op = 0; op < graph_.ops.size(); ++op) {
    if (!ran_[op]) run(static_cast<OpId>(op));
  }
  return log_.schedule();
}

}  // namespace ebbtide::scheduler
