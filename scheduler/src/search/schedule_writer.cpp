#include "search/schedule_writer.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace ebbtide::scheduler {

ScheduleWriter::ScheduleWriter(const Graph& graph)
    : graph_(graph),
      overwritten_at_(graph.ops.size()),
      current_(graph.values.size(), kNone),
      cone_stamp_(graph.ops.size(), 0) {
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const OpId op = graph.values[id].overwritten_by;
    if (op != kNone) overwritten_at_[op].push_back(static_cast<ValueId>(id));
  }
  begin();
}

void ScheduleWriter::begin() {
  next_ = 0;
  runs_.clear();
  copies_.clear();
  redundant_.clear();
  std::fill(current_.begin(), current_.end(), kNone);
  for (std::size_t id = 0; id < graph_.values.size(); ++id) {
    const Value& value = graph_.values[id];
    if (value.producer == kNone && !value.pinned) beginCopy(static_cast<ValueId>(id), true);
  }
}

// In the op's first run, does the program hold the value for it?
bool ScheduleWriter::servedByProgram(ValueId value, OpId op) const {
  return op == next_ && graph_.programServes(op, value);
}

const std::vector<OpId>& ScheduleWriter::missingFor(OpId op) {
  cone_.clear();
  ++stamp_;
  const auto require = [this](ValueId value) {
    if (graph_.values[value].pinned || current_[value] != kNone) return;
    const OpId producer = graph_.values[value].producer;
    if (producer == kNone || !graph_.ops[producer].rerunnable) {
      throw std::logic_error("value " + std::to_string(value) + " is gone and has no op record");
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
  return cone_;
}

void ScheduleWriter::read(ValueId value) {
  if (graph_.values[value].pinned) return;
  copies_[current_[value]].last_run = static_cast<std::int32_t>(runs_.size()) - 1;
}

void ScheduleWriter::beginCopy(ValueId value, bool first) {
  current_[value] = static_cast<std::int32_t>(copies_.size());
  copies_.push_back({value, static_cast<std::int32_t>(runs_.size()) - 1, first, false});
}

void ScheduleWriter::replay(OpId op) {
  runs_.push_back(op);
  for (ValueId input : graph_.ops[op].inputs) read(input);
  for (ValueId output : graph_.ops[op].outputs) {
    if (graph_.values[output].pinned) continue;
    if (current_[output] == kNone) {
      beginCopy(output, false);
    } else {
      redundant_.push_back({static_cast<std::int32_t>(runs_.size()) - 1, current_[output]});
    }
  }
}

void ScheduleWriter::firstRun(OpId op) {
  runs_.push_back(op);
  for (ValueId input : graph_.ops[op].inputs) {
    if (!servedByProgram(input, op)) read(input);
  }
  ++next_;
  overwrite(op);
  for (ValueId output : graph_.ops[op].outputs) {
    if (!graph_.values[output].pinned) beginCopy(output, true);
  }
}

// The program's write ends its own copy and a replay's, unless both exist.
void ScheduleWriter::overwrite(OpId op) {
  for (ValueId value : overwritten_at_[op]) {
    if (current_[value] == kNone) continue;
    Copy& copy = copies_[current_[value]];
    const bool apart = !copy.first && graph_.values[value].last_reference >= op;
    copy.overwritten = !apart && copy.last_run + 1 == static_cast<std::int32_t>(runs_.size());
    current_[value] = kNone;
  }
}

void ScheduleWriter::addDrop(std::int32_t run, ValueId value) {
  drop_next_.push_back(drop_head_[run + 1]);
  drop_head_[run + 1] = static_cast<std::int32_t>(drop_value_.size());
  drop_value_.push_back(value);
}

Schedule ScheduleWriter::schedule() {
  drop_head_.assign(runs_.size() + 1, kNone);
  drop_next_.clear();
  drop_value_.clear();
  for (const Copy& copy : copies_) {
    if (!copy.overwritten) addDrop(copy.last_run, copy.value);
  }
  // A second copy is dropped too where the first one is gone by then.
  for (const Redundant& made : redundant_) {
    const Copy& copy = copies_[made.copy];
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

}  // namespace ebbtide::scheduler
