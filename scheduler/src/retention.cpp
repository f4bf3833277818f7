#include "ebbtide/scheduler/retention.hpp"

#include <algorithm>
#include <stdexcept>

namespace ebbtide::scheduler {

ScheduleBuilder::ScheduleBuilder(const Graph& graph)
    : graph_(graph),
      droppable_(graph.values.size(), false),
      event_read_(graph.values.size(), kNone),
      last_need_(graph.values.size(), kNone),
      overwritten_at_(graph.ops.size()),
      expiry_(graph.ops.size()),
      current_(graph.values.size(), kNone),
      cone_stamp_(graph.ops.size(), 0) {
  std::vector<OpId> until(graph.values.size(), kNone);
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    const OpId op = static_cast<OpId>(id);
    for (ValueId input : graph.ops[id].inputs) {
      if (graph.values[input].pinned) continue;
      (graph.ops[id].backward ? event_read_ : until)[input] = op;
      if (!servedByProgram(input, op)) last_need_[input] = op;
    }
  }
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    until[id] = std::max({until[id], value.natural_last, value.producer});
    if (value.overwritten_by != kNone) {
      overwritten_at_[value.overwritten_by].push_back(static_cast<ValueId>(id));
    }
  }
  computeNeeds();
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    if (droppable_[id]) expiry_[until[id]].push_back(static_cast<ValueId>(id));
  }
}

// A value is droppable if a replay can still make it at the last position where anything may want
// it: a reader, or a replay (for such a position) of an op that reads it. Consumers first.
void ScheduleBuilder::computeNeeds() {
  const std::vector<OpId> last_replay = lastReplayPositions(graph_);
  for (std::size_t id = graph_.ops.size(); id-- > 0;) {
    const Op& op = graph_.ops[id];
    OpId replayed_until = kNone;
    for (ValueId output : op.outputs) {
      droppable_[output] = !graph_.values[output].pinned && op.rerunnable &&
                           last_replay[output] >= last_need_[output];
      if (droppable_[output]) replayed_until = std::max(replayed_until, last_need_[output]);
    }
    for (ValueId input : op.inputs) {
      if (!graph_.values[input].pinned) {
        last_need_[input] = std::max(last_need_[input], replayed_until);
      }
    }
  }
}

bool ScheduleBuilder::servedByProgram(ValueId value, OpId op) const {
  return !graph_.ops[op].backward && graph_.values[value].natural_last >= op;
}

Retention ScheduleBuilder::keepAll() const {
  Retention retention;
  retention.keep.resize(graph_.values.size());
  for (std::size_t id = 0; id < graph_.values.size(); ++id) {
    retention.keep[id] = event_read_[id] != kNone;
  }
  retention.memo.assign(graph_.values.size(), true);
  return retention;
}

void ScheduleBuilder::read(ValueId value) {
  if (graph_.values[value].pinned) return;
  copies_[current_[value]].last_run = static_cast<std::int32_t>(runs_.size()) - 1;
}

void ScheduleBuilder::beginCopy(ValueId value, bool first) {
  current_[value] = static_cast<std::int32_t>(copies_.size());
  copies_.push_back({value, static_cast<std::int32_t>(runs_.size()) - 1, first, false});
}

// Fills cone_ with the ops whose replays, in program order, make every missing input of `op`.
void ScheduleBuilder::collectCone(OpId op) {
  cone_.clear();
  ++stamp_;
  const auto require = [this](ValueId value) {
    if (graph_.values[value].pinned || current_[value] != kNone) return;
    const OpId producer = graph_.values[value].producer;
    if (producer == kNone || !graph_.ops[producer].rerunnable) {
      throw std::logic_error("value " + std::to_string(value) + " is gone and has no recipe");
    }
    if (cone_stamp_[producer] == stamp_) return;
    cone_stamp_[producer] = stamp_;
    stack_.push_back(producer);
  };
  for (ValueId input : graph_.ops[op].inputs) {
    if (!servedByProgram(input, op)) require(input);
  }
  while (!stack_.empty()) {
    const OpId next = stack_.back();
    stack_.pop_back();
    cone_.push_back(next);
    for (ValueId input : graph_.ops[next].inputs) require(input);
  }
  std::sort(cone_.begin(), cone_.end());
}

void ScheduleBuilder::replay(OpId op, OpId reader, const Retention& retention) {
  runs_.push_back(op);
  for (ValueId input : graph_.ops[op].inputs) read(input);
  for (ValueId output : graph_.ops[op].outputs) {
    if (graph_.values[output].pinned) continue;
    if (current_[output] != kNone) {
      redundant_.push_back({static_cast<std::int32_t>(runs_.size()) - 1, current_[output]});
      continue;
    }
    beginCopy(output, false);
    const bool early = !retention.memo_from.empty() && reader < retention.memo_from[output];
    if (early || !retention.memo[output]) event_copies_.push_back(output);
  }
}

void ScheduleBuilder::firstRun(OpId op) {
  runs_.push_back(op);
  for (ValueId input : graph_.ops[op].inputs) {
    if (!servedByProgram(input, op)) read(input);
  }
  overwrite(op);
  for (ValueId output : graph_.ops[op].outputs) {
    if (!graph_.values[output].pinned) beginCopy(output, true);
  }
}

void ScheduleBuilder::overwrite(OpId op) {
  for (ValueId value : overwritten_at_[op]) {
    if (current_[value] == kNone) continue;
    CopySpan& copy = copies_[current_[value]];
    const bool apart = !copy.first && graph_.values[value].natural_last >= op;
    copy.overwritten = !apart && copy.last_run + 1 == static_cast<std::int32_t>(runs_.size());
    current_[value] = kNone;
  }
}

void ScheduleBuilder::expire(OpId op, const Retention& retention) {
  for (ValueId value : event_copies_) current_[value] = kNone;
  event_copies_.clear();
  for (ValueId value : expiry_[op]) {
    if (retention.keep[value] || current_[value] == kNone) continue;
    if (copies_[current_[value]].first) current_[value] = kNone;
  }
}

void ScheduleBuilder::addDrop(std::int32_t run, ValueId value) {
  drop_next_.push_back(drop_head_[run + 1]);
  drop_head_[run + 1] = static_cast<std::int32_t>(drop_value_.size());
  drop_value_.push_back(value);
}

// Second pass: each copy is dropped right after the run that reads it last.
Schedule ScheduleBuilder::withDrops() {
  drop_head_.assign(runs_.size() + 1, kNone);
  drop_next_.clear();
  drop_value_.clear();
  for (const CopySpan& copy : copies_) {
    if (!copy.overwritten) addDrop(copy.last_run, copy.value);
  }
  for (const Redundant& made : redundant_) {
    const CopySpan& copy = copies_[made.copy];
    if (copy.last_run < made.run) addDrop(made.run, copy.value);
  }
  Schedule schedule;
  schedule.steps.reserve(runs_.size() + drop_value_.size());
  for (std::size_t run = 0; run <= runs_.size(); ++run) {
    if (run > 0) schedule.steps.push_back({Step::Kind::kRun, runs_[run - 1]});
    for (std::int32_t entry = drop_head_[run]; entry != kNone; entry = drop_next_[entry]) {
      schedule.steps.push_back({Step::Kind::kDrop, drop_value_[entry]});
    }
  }
  return schedule;
}

Schedule ScheduleBuilder::build(const Retention& retention) {
  runs_.clear();
  copies_.clear();
  redundant_.clear();
  event_copies_.clear();
  std::fill(current_.begin(), current_.end(), kNone);
  for (std::size_t id = 0; id < graph_.values.size(); ++id) {
    const Value& value = graph_.values[id];
    if (value.producer == kNone && !value.pinned) beginCopy(static_cast<ValueId>(id), true);
  }
  for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
    const OpId op = static_cast<OpId>(id);
    collectCone(op);
    for (OpId again : cone_) replay(again, op, retention);
    firstRun(op);
    expire(op, retention);
  }
  return withDrops();
}

Schedule buildSchedule(const Graph& graph, const Retention& retention) {
  return ScheduleBuilder(graph).build(retention);
}

}  // namespace ebbtide::scheduler
