#include "chain_expansion.hpp"

#include <algorithm>

#include "ebbtide/scheduler/retention.hpp"

namespace ebbtide::scheduler {

using Kind = ChainStep::Kind;

ChainExpansion::ChainExpansion(const Graph& graph, const std::vector<ChainContraction>& chains)
    : graph_(graph),
      chains_(chains),
      place_(graph.ops.size()),
      overwritten_at_(graph.ops.size()),
      cone_stamp_(graph.ops.size(), 0) {
  const ScheduleBuilder builder(graph);
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    last_need_.push_back(builder.lastNeed(static_cast<ValueId>(id)));
  }
  for (std::size_t chain = 0; chain < chains.size(); ++chain) {
    for (std::size_t stage = 0; stage < chains[chain].stages.size(); ++stage) {
      place(chains[chain].stages[stage], static_cast<std::int32_t>(chain),
            static_cast<std::int32_t>(stage));
    }
  }
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const OpId op = graph.values[id].overwritten_by;
    if (op != kNone) overwritten_at_[op].push_back(static_cast<ValueId>(id));
  }
}

void ChainExpansion::place(const ChainStage& stage, std::int32_t chain, std::int32_t index) {
  for (const auto* ops : {&stage.forward, &stage.backward}) {
    for (OpId op : *ops) place_[op] = {chain, index, op == ops->back()};
  }
}

void ChainExpansion::reset() {
  next_step_.assign(chains_.size(), 0);
  saved_now_.clear();
  for (const ChainContraction& chain : chains_) saved_now_.emplace_back(chain.stages.size(), false);
  first_run_next_ = 0;
  runs_.clear();
  copies_.clear();
  redundant_.clear();
  current_.assign(graph_.values.size(), kNone);
  for (std::size_t id = 0; id < graph_.values.size(); ++id) {
    const Value& value = graph_.values[id];
    if (value.producer == kNone && !value.pinned) beginCopy(static_cast<ValueId>(id), true);
  }
}

Schedule ChainExpansion::expand(const std::vector<ChainSchedule>& schedules) {
  reset();
  for (std::size_t id = 0; id < graph_.ops.size(); ++id) visit(static_cast<OpId>(id), schedules);
  return withDrops();
}

// Before an event come the steps that its chain has for it.
void ChainExpansion::visit(OpId op, const std::vector<ChainSchedule>& schedules) {
  const Place& place = place_[op];
  if (place.chain == kNone) {
    replayMissing(op);
    firstRun(op);
    return;
  }
  const ChainSchedule& steps = schedules[static_cast<std::size_t>(place.chain)];
  std::size_t& next = next_step_[place.chain];
  const bool backward = graph_.ops[op].backward;
  if (backward) {
    for (; steps[next].kind != Kind::kBackward; ++next) serve(steps[next], place.chain);
  }
  replayMissing(op);
  firstRun(op);
  if (!place.ends_stage) return;
  if (backward) {
    endBackward(place.stage, place.chain);
  } else {
    endForward(steps[next], place.chain);
  }
  ++next;
}

// What nothing needs any more is not made again: it might not be possible either.
void ChainExpansion::serve(const ChainStep& step, std::int32_t chain) {
  const ChainStage& stage = chains_[chain].stages[step.stage];
  const bool save = step.kind == Kind::kRunSave;
  const std::vector<OpId>& all = save ? stage.save : stage.run;
  for (OpId op : step.partial == kNone ? all : stage.partial[step.partial].run) {
    const auto& outputs = graph_.ops[op].outputs;
    const bool wanted = std::any_of(outputs.begin(), outputs.end(), [this](ValueId output) {
      return missing(output) && last_need_[output] >= static_cast<OpId>(first_run_next_);
    });
    if (!wanted) continue;
    replayMissing(op);
    replay(op);
  }
  endForward(step, chain);
}

void ChainExpansion::endForward(const ChainStep& step, std::int32_t chain) {
  const ChainStage& stage = chains_[chain].stages[step.stage];
  const bool save = step.kind == Kind::kRunSave;
  saved_now_[chain][step.stage] = save;
  const auto& saved = step.partial == kNone ? stage.saved : stage.partial[step.partial].kept;
  for (ValueId value : stage.made) {
    const bool kept = save && std::binary_search(saved.begin(), saved.end(), value);
    if (value != stage.output && !kept) forget(value);
  }
  const bool held = step.stage > 0 && saved_now_[chain][step.stage - 1];
  if (step.kind == Kind::kRun && !held) forget(stage.input);
}

void ChainExpansion::endBackward(std::int32_t index, std::int32_t chain) {
  const ChainStage& stage = chains_[chain].stages[index];
  saved_now_[chain][index] = false;
  for (ValueId value : stage.made) forget(value);
  if (index == 0 || !saved_now_[chain][index - 1]) forget(stage.input);
}

// Replays, in program order, what makes every missing input of `op`.
void ChainExpansion::replayMissing(OpId op) {
  ++stamp_;
  cone_.clear();
  const auto require = [this](ValueId value) {
    if (!missing(value)) return;
    const OpId producer = graph_.values[value].producer;
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
  for (OpId again : cone_) replay(again);
}

// In the op's first run, does the program hold the value for it?
bool ChainExpansion::servedByProgram(ValueId value, OpId op) const {
  const bool first = first_run_next_ == static_cast<std::size_t>(op);
  return first && !graph_.ops[op].backward && graph_.values[value].natural_last >= op;
}

bool ChainExpansion::missing(ValueId value) const {
  return !graph_.values[value].pinned && current_[value] == kNone;
}

void ChainExpansion::read(ValueId value) {
  if (graph_.values[value].pinned) return;
  copies_[current_[value]].last_run = static_cast<std::int32_t>(runs_.size()) - 1;
}

void ChainExpansion::beginCopy(ValueId value, bool first) {
  current_[value] = static_cast<std::int32_t>(copies_.size());
  copies_.push_back({value, static_cast<std::int32_t>(runs_.size()) - 1, first, false});
}

void ChainExpansion::replay(OpId op) {
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

void ChainExpansion::firstRun(OpId op) {
  runs_.push_back(op);
  for (ValueId input : graph_.ops[op].inputs) {
    if (!servedByProgram(input, op)) read(input);
  }
  ++first_run_next_;
  overwrite(op);
  for (ValueId output : graph_.ops[op].outputs) {
    if (!graph_.values[output].pinned) beginCopy(output, true);
  }
}

void ChainExpansion::overwrite(OpId op) {
  for (ValueId value : overwritten_at_[op]) {
    if (current_[value] == kNone) continue;
    Copy& copy = copies_[current_[value]];
    const bool apart = !copy.first && graph_.values[value].natural_last >= op;
    copy.overwritten = !apart && copy.last_run + 1 == static_cast<std::int32_t>(runs_.size());
    current_[value] = kNone;
  }
}

void ChainExpansion::forget(ValueId value) {
  if (value != kNone) current_[value] = kNone;
}

Schedule ChainExpansion::withDrops() const {
  std::vector<std::vector<ValueId>> drops(runs_.size() + 1);  // [0]: before the first run
  for (const Copy& copy : copies_) {
    if (!copy.overwritten) drops[copy.last_run + 1].push_back(copy.value);
  }
  // A second copy is dropped too where the first one is gone by then.
  for (const Redundant& made : redundant_) {
    const Copy& copy = copies_[made.copy];
    if (copy.last_run < made.run) drops[made.run + 1].push_back(copy.value);
  }
  Schedule schedule;
  for (std::size_t run = 0; run <= runs_.size(); ++run) {
    if (run > 0) schedule.steps.push_back({Step::Kind::kRun, runs_[run - 1]});
    for (ValueId value : drops[run]) schedule.steps.push_back({Step::Kind::kDrop, value});
  }
  return schedule;
}

}  // namespace ebbtide::scheduler
