#include "search/replay_timeline.hpp"

#include <algorithm>

namespace ebbtide::scheduler {
namespace {

RunKey firstRun(OpId op) {
  return {op, op};
}

RunKey never() {
  RunKey key;
  key.bits = ~std::uint64_t{0};
  return key;
}

}  // namespace

ReplayTimeline::ReplayTimeline(const Graph& graph)
    : graph_(graph),
      last_stage_(graph.ops.size(), kNone),
      end_(graph.values.size(), never()),
      successor_(graph.values.size(), kNone),
      last_reference_(graph.values.size()),
      plain_(graph.values.size(), 0),
      uses_(graph.values.size()),
      levels_(graph),
      count_(graph.ops.size(), 0) {
  setLimits();
  setLives();
  firstUses();
}

// As lastReplayPositions(), and pinned inputs must not be overwritten yet.
void ReplayTimeline::setLimits() {
  const std::vector<bool> open = replayPositions(graph_);
  open_.assign(open.begin(), open.end());
  const OpId end = static_cast<OpId>(graph_.ops.size());
  for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
    const Op& op = graph_.ops[id];
    if (!op.rerunnable) continue;
    OpId last = end - 1;
    for (ValueId input : op.inputs) {
      const Value& value = graph_.values[input];
      OpId until = value.overwritten_by == kNone ? end : value.overwritten_by;
      if (!value.pinned && value.producer != kNone) {
        until = std::max(until, last_stage_[value.producer]);
      }
      last = std::min(last, until);
    }
    last_stage_[id] = last;
  }
}

// Ends of values, and the bytes that the program itself holds whatever the schedule does.
void ReplayTimeline::setLives() {
  for (const Value& value : graph_.values) {
    if (value.previous_epoch != kNone) successor_[value.previous_epoch] = value.producer;
  }
  for (std::size_t id = 0; id < graph_.values.size(); ++id) {
    const Value& value = graph_.values[id];
    const OpId overwritten = value.overwritten_by;
    if (overwritten != kNone) end_[id] = firstRun(overwritten);
    plain_[id] = value.last_reference == kNone && successor_[id] == kNone && !graph_.lazy_outputs;
    if (value.pinned || value.last_reference == kNone) continue;
    const RunKey birth = value.producer == kNone ? RunKey() : firstRun(value.producer);
    last_reference_[id] = std::min(firstRun(value.last_reference), end_[id]);
    const bool taken = last_reference_[id] == end_[id] && successor_[id] != kNone;
    if (birth >= last_reference_[id]) continue;
    levels_.add({birth, last_reference_[id], !taken}, value.bytes);
    if (taken) levels_.addTaken(last_reference_[id], value.bytes);
  }
}

void ReplayTimeline::firstUses() {
  for (std::size_t id = 0; id < graph_.values.size(); ++id) {
    if (graph_.values[id].producer == kNone && !graph_.values[id].pinned) uses_[id].emplace_back();
  }
  for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
    const Op& op = graph_.ops[id];
    const RunKey run = firstRun(static_cast<OpId>(id));
    for (ValueId input : op.inputs) {
      const bool from_program = graph_.programServes(run.op(), input);
      if (!graph_.values[input].pinned && !from_program) uses_[input].push_back(run);
    }
    for (ValueId output : op.outputs) {
      if (!graph_.values[output].pinned) uses_[output].push_back(run);
    }
  }
  for (std::size_t id = 0; id < graph_.values.size(); ++id) {
    cover(static_cast<ValueId>(id), 0, uses_[id].size(), 1);
  }
}

bool ReplayTimeline::firstCopy(ValueId value, std::size_t use) const {
  for (std::size_t i = 1; i <= use; ++i) {
    if (makes(value, uses_[value][i])) return false;
  }
  return true;
}

// Does an output of that run take the bytes over when the run begins? A copy that the program does
// not know of survives the first run; a copy that is read later, or that the program holds, a
// replay.
bool ReplayTimeline::takenOver(ValueId value, std::size_t use) const {
  const RunKey run = uses_[value][use];
  if (successor_[value] == kNone || run.op() != successor_[value]) return false;
  const bool held = graph_.values[value].last_reference >= run.stage();
  const bool first = firstCopy(value, use);
  return run.first() ? first || !held : !(first && held) && !isRead(value, use + 1);
}

// Adds (sign 1) or takes away (-1) what uses `first` ... `last` cost.
void ReplayTimeline::cover(ValueId value, std::size_t first, std::size_t last, Bytes sign) {
  const auto& uses = uses_[value];
  const Bytes bytes = sign * graph_.values[value].bytes;
  for (std::size_t use = first; use <= last && use < uses.size(); ++use) {
    if (makes(value, uses[use])) {
      if (!graph_.lazy_outputs || isRead(value, use + 1)) levels_.addBirth(uses[use], bytes);
      continue;
    }
    StageLevels::Range range{uses[use - 1], uses[use], !takenOver(value, use)};
    if (firstCopy(value, use)) range.from = std::max(range.from, last_reference_[value]);
    levels_.add(range, bytes);
    if (!range.with_to && range.from < range.to) levels_.addTaken(range.to, bytes);
  }
}

// A use after a changed one costs something else up to the next run that makes the value.
std::size_t ReplayTimeline::lastAffected(ValueId value, std::size_t use) const {
  while (isRead(value, use)) ++use;
  return use;
}

// The value is an ordinary one: its use `use` is new (sign 1) or about to go (-1).
void ReplayTimeline::changePlainUse(ValueId value, std::size_t use, Bytes sign) {
  const auto& uses = uses_[value];
  const Bytes bytes = sign * graph_.values[value].bytes;
  const bool read_later = isRead(value, use + 1);
  if (makes(value, uses[use])) {
    if (read_later) levels_.add({uses[use - 1], uses[use], true}, -bytes);
    levels_.addBirth(uses[use], bytes);
  } else if (!read_later) {
    levels_.add({uses[use - 1], uses[use], true}, bytes);
  }
}

void ReplayTimeline::addUse(ValueId value, RunKey run) {
  auto& uses = uses_[value];
  const auto place = std::lower_bound(uses.begin(), uses.end(), run);
  const std::size_t use = static_cast<std::size_t>(place - uses.begin());
  if (plain_[value]) {
    uses.insert(place, run);
    return changePlainUse(value, use, 1);
  }
  const std::size_t last = lastAffected(value, use);
  cover(value, use - 1, last, -1);
  uses.insert(place, run);
  cover(value, use - 1, last + 1, 1);
}

void ReplayTimeline::removeUse(ValueId value, RunKey run) {
  auto& uses = uses_[value];
  const auto place = std::lower_bound(uses.begin(), uses.end(), run);
  const std::size_t use = static_cast<std::size_t>(place - uses.begin());
  if (plain_[value]) {
    changePlainUse(value, use, -1);
    uses.erase(place);
    return;
  }
  const std::size_t last = lastAffected(value, use + 1);
  cover(value, use - 1, last, -1);
  uses.erase(place);
  cover(value, use - 1, last - 1, 1);
}

bool ReplayTimeline::copyAt(ValueId value, RunKey run) const {
  if (graph_.values[value].pinned || run <= end_[value]) return true;
  const auto& uses = uses_[value];
  const auto next = std::lower_bound(uses.begin(), uses.end(), run);
  return *(next - 1) > end_[value];
}

bool ReplayTimeline::insert(RunKey replay) {
  if (!allowed(replay) || levels_.has(replay)) return false;
  const Op& op = graph_.ops[replay.op()];
  for (ValueId input : op.inputs) {
    if (!copyAt(input, replay)) return false;
  }
  levels_.beginChange(replay.stage());
  levels_.open(replay);
  for (ValueId input : op.inputs) {
    if (!graph_.values[input].pinned) addUse(input, replay);
  }
  for (ValueId output : op.outputs) {
    if (!graph_.values[output].pinned) addUse(output, replay);
  }
  levels_.endChange();
  ++count_[replay.op()];
  replay_ns_ += op.duration_ns;
  return true;
}

bool ReplayTimeline::remove(RunKey replay) {
  const Op& op = graph_.ops[replay.op()];
  for (ValueId output : op.outputs) {
    if (graph_.values[output].pinned) continue;
    const auto& uses = uses_[output];
    const auto use = std::lower_bound(uses.begin(), uses.end(), replay);
    const bool read = isRead(output, static_cast<std::size_t>(use - uses.begin()) + 1);
    if (read && *(use + 1) > end_[output] && *(use - 1) <= end_[output]) return false;
  }
  levels_.beginChange(replay.stage());
  for (ValueId output : op.outputs) {
    if (!graph_.values[output].pinned) removeUse(output, replay);
  }
  for (ValueId input : op.inputs) {
    if (!graph_.values[input].pinned) removeUse(input, replay);
  }
  levels_.close(replay);
  levels_.endChange();
  --count_[replay.op()];
  replay_ns_ -= op.duration_ns;
  return true;
}

bool ReplayTimeline::idle(RunKey replay) const {
  for (ValueId output : graph_.ops[replay.op()].outputs) {
    if (graph_.values[output].pinned) continue;
    const auto& uses = uses_[output];
    const auto use = std::lower_bound(uses.begin(), uses.end(), replay);
    if (isRead(output, static_cast<std::size_t>(use - uses.begin()) + 1)) return false;
  }
  return true;
}

// Each copy is dropped right after its last use, unless the program's write ends it there.
Schedule ReplayTimeline::schedule() const {
  std::vector<std::pair<RunKey, ValueId>> drops;
  for (std::size_t id = 0; id < uses_.size(); ++id) {
    const ValueId value = static_cast<ValueId>(id);
    for (std::size_t use = 0; use < uses_[id].size(); ++use) {
      if (isRead(value, use + 1)) continue;
      const RunKey last = uses_[id][use];
      const bool apart = !firstCopy(value, use) && graph_.values[id].last_reference >= last.stage();
      if (last != end_[id] || apart) drops.emplace_back(last, value);
    }
  }
  std::sort(drops.begin(), drops.end());
  Schedule schedule;
  schedule.steps.reserve(graph_.ops.size() + replays().size() + drops.size());
  auto drop = drops.begin();
  const auto dropUpTo = [&](RunKey run) {
    for (; drop != drops.end() && drop->first <= run; ++drop) {
      schedule.steps.push_back({Step::Kind::kDrop, drop->second});
    }
  };
  dropUpTo(RunKey());
  for (const RunKey run : levels_.runs()) {
    schedule.steps.push_back({Step::Kind::kRun, run.op()});
    dropUpTo(run);
  }
  return schedule;
}

std::vector<RunKey> stagedReplays(const Graph& graph, const Schedule& schedule) {
  std::vector<RunKey> replays;
  std::vector<bool> ran(graph.ops.size(), false);
  OpId stage = 0;
  for (const Step& step : schedule.steps) {
    if (step.kind != Step::Kind::kRun) continue;
    if (ran[step.id]) {
      replays.emplace_back(stage, step.id);
    } else {
      ran[step.id] = true;
      ++stage;
    }
  }
  return replays;
}

}  // namespace ebbtide::scheduler
