#include "planners/chain/chain_expansion.hpp"

#include <algorithm>

#include "search/retention.hpp"

namespace ebbtide::scheduler {

using Kind = ChainStep::Kind;

ChainExpansion::ChainExpansion(const Graph& graph, const std::vector<ChainContraction>& chains)
    : graph_(graph), chains_(chains), place_(graph.ops.size()), writer_(graph) {
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
  writer_.begin();
}

Schedule ChainExpansion::expand(const std::vector<ChainSchedule>& schedules) {
  reset();
  for (std::size_t id = 0; id < graph_.ops.size(); ++id) visit(static_cast<OpId>(id), schedules);
  return writer_.schedule();
}

// Before an event come the steps that its chain has for it.
void ChainExpansion::visit(OpId op, const std::vector<ChainSchedule>& schedules) {
  const Place& place = place_[op];
  if (place.chain == kNone) {
    replayMissing(op);
    writer_.firstRun(op);
    return;
  }
  const ChainSchedule& steps = schedules[static_cast<std::size_t>(place.chain)];
  std::size_t& next = next_step_[place.chain];
  const bool backward = graph_.ops[op].backward;
  if (backward) {
    for (; steps[next].kind != Kind::kBackward; ++next) serve(steps[next], place.chain);
  }
  replayMissing(op);
  writer_.firstRun(op);
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
      return missing(output) && last_need_[output] >= writer_.next();
    });
    if (!wanted) continue;
    replayMissing(op);
    writer_.replay(op);
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

void ChainExpansion::replayMissing(OpId op) {
  for (OpId again : writer_.missingFor(op)) writer_.replay(again);
}

bool ChainExpansion::missing(ValueId value) const {
  return !graph_.values[value].pinned && !writer_.hasCopy(value);
}

void ChainExpansion::forget(ValueId value) {
  if (value != kNone) writer_.forget(value);
}

}  // namespace ebbtide::scheduler
