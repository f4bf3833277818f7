#include "replay_timeline.hpp"

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

Bytes fixedAtStart(const Op& op) {
  return op.fixed_at_start == kNone ? op.fixed_bytes : op.fixed_at_start;
}

}  // namespace

ReplayTimeline::ReplayTimeline(const Graph& graph)
    : graph_(graph),
      last_stage_(graph.ops.size(), kNone),
      end_(graph.values.size(), never()),
      successor_(graph.values.size(), kNone),
      natural_(graph.values.size()),
      plain_(graph.values.size(), 0),
      uses_(graph.values.size()),
      slots_(graph.ops.size()),
      tree_(std::vector<Bytes>(graph.ops.size(), 0)),
      count_(graph.ops.size(), 0) {
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    Slot slot;
    slot.op = static_cast<OpId>(id);
    slot.extra = graph.ops[id].fixed_bytes;
    slots_[id].push_back(slot);
    refresh(slot.op);
  }
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
    plain_[id] = value.natural_last == kNone && successor_[id] == kNone && !graph_.lazy_outputs;
    if (value.pinned || value.natural_last == kNone) continue;
    const RunKey birth = value.producer == kNone ? RunKey() : firstRun(value.producer);
    natural_[id] = std::min(firstRun(value.natural_last), end_[id]);
    const bool taken = natural_[id] == end_[id] && successor_[id] != kNone;
    if (birth >= natural_[id]) continue;
    addRange({birth, natural_[id], !taken}, value.bytes);
    if (taken) slotAt(natural_[id])->taken += value.bytes;
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
      const Value& value = graph_.values[input];
      const bool from_program = !op.backward && value.natural_last >= run.op();
      if (!value.pinned && !from_program) uses_[input].push_back(run);
    }
    for (ValueId output : op.outputs) {
      if (!graph_.values[output].pinned) uses_[output].push_back(run);
    }
  }
  for (std::size_t id = 0; id < graph_.values.size(); ++id) {
    cover(static_cast<ValueId>(id), 0, uses_[id].size(), 1);
  }
}

std::vector<ReplayTimeline::Slot>::iterator ReplayTimeline::slotAt(RunKey run) {
  auto& slots = slots_[run.stage()];
  auto slot = slots.end() - 1;
  if (run.first()) return slot;
  return std::lower_bound(slots.begin(), slot, run.op(),
                          [](const Slot& one, OpId op) { return one.op < op; });
}

bool ReplayTimeline::has(RunKey replay) const {
  const auto& slots = slots_[replay.stage()];
  return std::any_of(slots.begin(), slots.end() - 1,
                     [&](const Slot& slot) { return slot.op == replay.op(); });
}

RunKey ReplayTimeline::peakRun(OpId stage) const {
  const auto& slots = slots_[stage];
  const auto most = std::max_element(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) {
    return a.live + a.extra < b.live + b.extra;
  });
  return {stage, most->op};
}

void ReplayTimeline::refresh(OpId stage) {
  if (stage == open_stage_) return;
  const auto& slots = slots_[stage];
  Bytes most = slots[0].live + slots[0].extra;
  for (std::size_t i = 1; i < slots.size(); ++i) {
    most = std::max(most, slots[i].live + slots[i].extra);
  }
  tree_.setOwn(static_cast<std::size_t>(stage), most);
}

void ReplayTimeline::addInStage(const Range& range, OpId stage, Bytes bytes) {
  const RunKey last = range.with_to ? range.to : RunKey(range.to.stage(), range.to.op() - 1);
  for (Slot& slot : slots_[stage]) {
    const RunKey run(stage, slot.op);
    if (run > range.from && run <= last) slot.live += bytes;
  }
  refresh(stage);
}

void ReplayTimeline::addRange(const Range& range, Bytes bytes) {
  if (bytes == 0 || range.from >= range.to) return;
  const OpId from = range.from.stage(), to = range.to.stage();
  const bool from_start = range.from.bits == 0;
  if (from == to && !(from_start && range.to.first() && range.with_to)) {
    return addInStage(range, from, bytes);
  }
  const OpId first_whole = from_start ? 0 : from + 1;
  const OpId last_whole = range.to.first() && range.with_to ? to : to - 1;
  if (!from_start && !range.from.first()) addInStage(range, from, bytes);
  if (last_whole < to) addInStage(range, to, bytes);
  if (first_whole <= last_whole) {
    tree_.add(static_cast<std::size_t>(first_whole), static_cast<std::size_t>(last_whole), bytes);
  }
}

void ReplayTimeline::addBirth(RunKey run, Bytes bytes) {
  if (run.bits == 0) return;
  const auto slot = slotAt(run);
  slot->live += bytes;
  slot->born += bytes;
  refresh(run.stage());
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
  const bool held = graph_.values[value].natural_last >= run.stage();
  const bool first = firstCopy(value, use);
  return run.first() ? first || !held : !(first && held) && !isRead(value, use + 1);
}

// Adds (sign 1) or takes away (-1) what uses `first` ... `last` cost.
void ReplayTimeline::cover(ValueId value, std::size_t first, std::size_t last, Bytes sign) {
  const auto& uses = uses_[value];
  const Bytes bytes = sign * graph_.values[value].bytes;
  for (std::size_t use = first; use <= last && use < uses.size(); ++use) {
    if (makes(value, uses[use])) {
      if (!graph_.lazy_outputs || isRead(value, use + 1)) addBirth(uses[use], bytes);
      continue;
    }
    Range range{uses[use - 1], uses[use], !takenOver(value, use)};
    if (firstCopy(value, use)) range.from = std::max(range.from, natural_[value]);
    addRange(range, bytes);
    if (!range.with_to && range.from < range.to) slotAt(range.to)->taken += bytes;
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
    if (read_later) addRange({uses[use - 1], uses[use], true}, -bytes);
    addBirth(uses[use], bytes);
  } else if (!read_later) {
    addRange({uses[use - 1], uses[use], true}, bytes);
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

// Live during the new run: what is live when the next run begins.
void ReplayTimeline::openSlot(RunKey replay) {
  const auto next = slotAt(replay);
  Slot slot;
  slot.op = replay.op();
  slot.listed = static_cast<std::int32_t>(replays_.size());
  slot.live = next->live - next->born + next->taken;
  slot.extra = graph_.ops[replay.op()].workspace_bytes + fixedAtStart(graph_.ops[replay.stage()]);
  slots_[replay.stage()].insert(next, slot);
  replays_.push_back(replay);
  ++count_[replay.op()];
  replay_ns_ += graph_.ops[replay.op()].duration_ns;
}

void ReplayTimeline::closeSlot(RunKey replay) {
  const auto slot = slotAt(replay);
  const RunKey moved = replays_.back();
  slotAt(moved)->listed = slot->listed;
  replays_[static_cast<std::size_t>(slot->listed)] = moved;
  replays_.pop_back();
  slots_[replay.stage()].erase(slot);
  --count_[replay.op()];
  replay_ns_ -= graph_.ops[replay.op()].duration_ns;
  refresh(replay.stage());
}

bool ReplayTimeline::copyAt(ValueId value, RunKey run) const {
  if (graph_.values[value].pinned || run <= end_[value]) return true;
  const auto& uses = uses_[value];
  const auto next = std::lower_bound(uses.begin(), uses.end(), run);
  return *(next - 1) > end_[value];
}

bool ReplayTimeline::insert(RunKey replay) {
  if (!allowed(replay) || has(replay)) return false;
  const Op& op = graph_.ops[replay.op()];
  for (ValueId input : op.inputs) {
    if (!copyAt(input, replay)) return false;
  }
  openSlot(replay);
  open_stage_ = replay.stage();
  for (ValueId input : op.inputs) {
    if (!graph_.values[input].pinned) addUse(input, replay);
  }
  for (ValueId output : op.outputs) {
    if (!graph_.values[output].pinned) addUse(output, replay);
  }
  open_stage_ = kNone;
  refresh(replay.stage());
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
  open_stage_ = replay.stage();
  for (ValueId output : op.outputs) {
    if (!graph_.values[output].pinned) removeUse(output, replay);
  }
  for (ValueId input : op.inputs) {
    if (!graph_.values[input].pinned) removeUse(input, replay);
  }
  open_stage_ = kNone;
  closeSlot(replay);
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
      const bool apart = !firstCopy(value, use) && graph_.values[id].natural_last >= last.stage();
      if (last != end_[id] || apart) drops.emplace_back(last, value);
    }
  }
  std::sort(drops.begin(), drops.end());
  Schedule schedule;
  schedule.steps.reserve(graph_.ops.size() + replays_.size() + drops.size());
  auto drop = drops.begin();
  const auto dropUpTo = [&](RunKey run) {
    for (; drop != drops.end() && drop->first <= run; ++drop) {
      schedule.steps.push_back({Step::Kind::kDrop, drop->second});
    }
  };
  dropUpTo(RunKey());
  for (std::size_t stage = 0; stage < slots_.size(); ++stage) {
    for (const Slot& slot : slots_[stage]) {
      schedule.steps.push_back({Step::Kind::kRun, slot.op});
      dropUpTo(RunKey(static_cast<OpId>(stage), slot.op));
    }
  }
  return schedule;
}

}  // namespace ebbtide::scheduler
