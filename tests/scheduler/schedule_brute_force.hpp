// Least time of the replays of a tiny graph over all schedules without offload, by Dijkstra's
// algorithm over sets of ops that have run and of values that are live. For graphs without
// overwriting or lazy outputs. Shares nothing with planners.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"

namespace ebbtide::scheduler {

class ScheduleBruteForce {
 public:
  ScheduleBruteForce(const Graph& graph, Bytes budget) : graph_(graph), budget_(budget) {}

  // Nothing: no schedule fits.
  std::optional<Nanoseconds> leastReplayTime() {
    unsigned sources = 0;
    for (std::size_t id = 0; id < graph_.values.size(); ++id) {
      if (graph_.values[id].producer == kNone) sources |= 1u << id;
    }
    push({0, sources}, 0);
    while (!queue_.empty()) {
      const auto [time, state] = queue_.top();
      queue_.pop();
      if (state.first + 1 == 1u << graph_.ops.size()) return time;
      if (time > best_.at(state)) continue;
      for (std::size_t op = 0; op < graph_.ops.size(); ++op) run(state, op, time);
      for (std::size_t value = 0; value < graph_.values.size(); ++value) drop(state, value, time);
    }
    return std::nullopt;
  }

 private:
  using State = std::pair<unsigned, unsigned>;  // ops that have run, values that are live
  using Entry = std::pair<Nanoseconds, State>;

  void run(const State& state, std::size_t id, Nanoseconds time) {
    const Op& op = graph_.ops[id];
    if ((setOf(op.inputs) & ~state.second) != 0) return;
    const unsigned live = state.second | setOf(op.outputs), before = (1u << id) - 1;
    if ((state.first >> id & 1) == 0) {
      if (!graph_.any_order && (state.first & before) != before) return;
      if (bytes(live) + op.fixed_bytes > budget_) return;
      return push({state.first | 1u << id, live}, time);
    }
    const std::size_t next = nextFirstRun(state);
    if (!op.rerunnable || live == state.second || !mayReplayBefore(next)) return;
    const Op& serves = graph_.ops[next];
    const Bytes fixed = serves.fixedAtStart();
    const Bytes twice = bytes(state.second & setOf(op.outputs));  // made beside a copy at hand
    if (bytes(live) + twice + op.workspace_bytes + fixed > budget_) return;
    push({state.first, live}, time + op.duration_ns);
  }

  // What the program holds costs nothing to keep.
  void drop(const State& state, std::size_t id, Nanoseconds time) {
    const Value& value = graph_.values[id];
    const bool live = (state.second >> id & 1) != 0 && !value.pinned;
    const bool held = value.last_reference >= static_cast<OpId>(nextFirstRun(state));
    if (live && !held) push({state.first, state.second & ~(1u << id)}, time);
  }

  std::size_t nextFirstRun(const State& state) const {
    std::size_t next = 0;
    while (next + 1 < graph_.ops.size() && (state.first >> next & 1) != 0) ++next;
    return next;
  }

  // Where planners put replays in recorded steps: a backward op that reads something comes next.
  bool mayReplayBefore(std::size_t next) const {
    const Op& op = graph_.ops[next];
    return !graph_.isRecordedStep() || (op.backward && !op.inputs.empty());
  }

  static unsigned setOf(const std::vector<ValueId>& values) {
    unsigned set = 0;
    for (ValueId value : values) set |= 1u << value;
    return set;
  }

  Bytes bytes(unsigned live) const {
    Bytes sum = 0;
    for (std::size_t id = 0; id < graph_.values.size(); ++id) {
      if ((live >> id & 1) != 0 && !graph_.values[id].pinned) sum += graph_.values[id].bytes;
    }
    return sum;
  }

  void push(const State& state, Nanoseconds time) {
    const auto [at, added] = best_.emplace(state, time);
    if (!added && at->second <= time) return;
    at->second = time;
    queue_.emplace(time, state);
  }

  const Graph& graph_;
  Bytes budget_;
  std::map<State, Nanoseconds> best_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace ebbtide::scheduler
