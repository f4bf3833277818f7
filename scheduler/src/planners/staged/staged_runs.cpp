#include "planners/staged/staged_runs.hpp"

#include <algorithm>

namespace ebbtide::scheduler {

StagedRuns::StagedRuns(const Graph& graph)
    : graph_(graph),
      open_(replayPositions(graph)),
      readers_(graph.values.size()),
      needed_until_(graph.values.size(), kNone),
      held_until_(graph.values.size(), kNone),
      replay_from_(graph.ops.size()),
      replay_until_(graph.ops.size(), kNone) {
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    for (ValueId input : graph.ops[id].inputs) readers_[input].push_back(static_cast<OpId>(id));
  }
  setHeld();
  setNeeds();
}

void StagedRuns::setHeld() {
  for (std::size_t id = 0; id < graph_.values.size(); ++id) {
    const Value& value = graph_.values[id];
    OpId until = value.last_reference;
    if (value.overwritten_by != kNone) until = std::min(until, value.overwritten_by);
    if (until >= value.producer) held_until_[id] = until;
  }
  for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
    replay_from_[id] = static_cast<OpId>(id);
    for (ValueId output : graph_.ops[id].outputs) {
      if (graph_.values[output].pinned) continue;
      replay_from_[id] = std::max(replay_from_[id], held_until_[output]);
    }
  }
}

// From the last op back: what it makes is read by later ones.
void StagedRuns::setNeeds() {
  const ReplayTimeline limits(graph_);
  const OpId ops = static_cast<OpId>(graph_.ops.size());
  for (OpId op = ops; op-- > 0;) {
    OpId until = kNone;
    for (ValueId output : graph_.ops[op].outputs) {
      if (!graph_.values[output].pinned) until = std::max(until, needed_until_[output]);
    }
    until = std::max(op, std::min(until, limits.lastStage(op)));
    if (until > replay_from_[op] && graph_.ops[op].rerunnable) replay_until_[op] = until;
    for (ValueId input : graph_.ops[op].inputs) {
      needed_until_[input] = std::max({needed_until_[input], op, replay_until_[op]});
    }
  }
}

Schedule StagedRuns::schedule(std::vector<RunKey> replays) const {
  std::sort(replays.begin(), replays.end());
  ReplayTimeline timeline(graph_);
  for (const RunKey replay : replays) timeline.insert(replay);
  return timeline.schedule();
}

std::vector<RunKey> StagedRuns::replaysOf(const Schedule& schedule) const {
  std::vector<RunKey> replays = stagedReplays(graph_, schedule);
  std::sort(replays.begin(), replays.end());
  const bool twice = std::adjacent_find(replays.begin(), replays.end()) != replays.end();
  const bool all = std::all_of(replays.begin(), replays.end(), [&](RunKey replay) {
    return !replay.first() && may(replay.stage(), replay.op());
  });
  return twice || !all ? std::vector<RunKey>() : replays;
}

}  // namespace ebbtide::scheduler
