#include "search/stage_levels.hpp"

#include <algorithm>

namespace ebbtide::scheduler {

StageLevels::StageLevels(const Graph& graph)
    : graph_(graph), slots_(graph.ops.size()), tree_(std::vector<Bytes>(graph.ops.size(), 0)) {
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    Slot slot;
    slot.op = static_cast<OpId>(id);
    slot.extra = graph.ops[id].fixed_bytes;
    slots_[id].push_back(slot);
    refresh(slot.op);
  }
}

std::vector<StageLevels::Slot>::iterator StageLevels::slotAt(RunKey run) {
  auto& slots = slots_[run.stage()];
  auto slot = slots.end() - 1;
  if (run.first()) return slot;
  return std::lower_bound(slots.begin(), slot, run.op(),
                          [](const Slot& one, OpId op) { return one.op < op; });
}

bool StageLevels::has(RunKey replay) const {
  const auto& slots = slots_[replay.stage()];
  return std::any_of(slots.begin(), slots.end() - 1,
                     [&](const Slot& slot) { return slot.op == replay.op(); });
}

RunKey StageLevels::peakRun(OpId stage) const {
  const auto& slots = slots_[stage];
  const auto most = std::max_element(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) {
    return a.live + a.extra < b.live + b.extra;
  });
  return {stage, most->op};
}

void StageLevels::refresh(OpId stage) {
  if (stage == changing_) return;
  const auto& slots = slots_[stage];
  Bytes most = slots[0].live + slots[0].extra;
  for (std::size_t i = 1; i < slots.size(); ++i) {
    most = std::max(most, slots[i].live + slots[i].extra);
  }
  tree_.setOwn(static_cast<std::size_t>(stage), most);
}

void StageLevels::addInStage(const Range& range, OpId stage, Bytes bytes) {
  const RunKey last = range.with_to ? range.to : RunKey(range.to.stage(), range.to.op() - 1);
  for (Slot& slot : slots_[stage]) {
    const RunKey run(stage, slot.op);
    if (run > range.from && run <= last) slot.live += bytes;
  }
  refresh(stage);
}

void StageLevels::add(const Range& range, Bytes bytes) {
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

void StageLevels::addBirth(RunKey run, Bytes bytes) {
  if (run.bits == 0) return;
  const auto slot = slotAt(run);
  slot->live += bytes;
  slot->born += bytes;
  refresh(run.stage());
}

// Live during the new run: what is live when the next run begins.
void StageLevels::open(RunKey replay) {
  const auto next = slotAt(replay);
  Slot slot;
  slot.op = replay.op();
  slot.listed = static_cast<std::int32_t>(replays_.size());
  slot.live = next->live - next->born + next->taken;
  slot.extra = graph_.ops[replay.op()].workspace_bytes + graph_.ops[replay.stage()].fixedAtStart();
  slots_[replay.stage()].insert(next, slot);
  replays_.push_back(replay);
}

void StageLevels::close(RunKey replay) {
  const auto slot = slotAt(replay);
  const RunKey moved = replays_.back();
  slotAt(moved)->listed = slot->listed;
  replays_[static_cast<std::size_t>(slot->listed)] = moved;
  replays_.pop_back();
  slots_[replay.stage()].erase(slot);
}

void StageLevels::endChange() {
  const OpId stage = changing_;
  changing_ = kNone;
  refresh(stage);
}

std::vector<RunKey> StageLevels::runs() const {
  std::vector<RunKey> runs;
  runs.reserve(slots_.size() + replays_.size());
  for (std::size_t stage = 0; stage < slots_.size(); ++stage) {
    for (const Slot& slot : slots_[stage]) runs.emplace_back(static_cast<OpId>(stage), slot.op);
  }
  return runs;
}

}  // namespace ebbtide::scheduler
