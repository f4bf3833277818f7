// Least time of the replays of a tiny graph over all schedules without offload, by Dijkstra's
// algorithm over sets of ops that have run and of values that are live. For ops with one output
// each, without natural lives, overwriting or lazy outputs. Shares nothing with planners.
#pragma once

#include <algorithm>
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
      for (std::size_t value = 0; value < graph_.values.size(); ++value) {
        const bool live = (state.second >> value & 1) != 0 && !graph_.values[value].pinned;
        if (live) push({state.first, state.second & ~(1u << value)}, time);
      }
    }
    return std::nullopt;
  }

 private:
  using State = std::pair<unsigned, unsigned>;  // ops that have run, values that are live
  using Entry = std::pair<Nanoseconds, State>;

  void run(const State& state, std::size_t id, Nanoseconds time) {
    const Op& op = graph_.ops[id];
    const bool first = (state.first >> id & 1) == 0;
    const unsigned before = (1u << id) - 1;
    if (first && !graph_.any_order && (state.first & before) != before) return;
    if (!first && !op.rerunnable) return;
    for (ValueId input : op.inputs) {
      if ((state.second >> input & 1) == 0) return;
    }
    const unsigned live = state.second | 1u << op.outputs[0];
    if (!first && live == state.second) return;
    if (bytes(live) + extra(state, op, first) > budget_) return;
    push({state.first | 1u << id, live}, time + (first ? 0 : op.duration_ns));
  }

  Bytes bytes(unsigned live) const {
    Bytes sum = 0;
    for (std::size_t id = 0; id < graph_.values.size(); ++id) {
      if ((live >> id & 1) != 0 && !graph_.values[id].pinned) sum += graph_.values[id].bytes;
    }
    return sum;
  }

  Bytes extra(const State& state, const Op& op, bool first) const {
    if (first) return op.fixed_bytes;
    std::size_t next = 0;
    while (next + 1 < graph_.ops.size() && (state.first >> next & 1) != 0) ++next;
    const Op& serves = graph_.ops[next];
    const Bytes fixed = serves.fixed_at_start == kNone ? serves.fixed_bytes : serves.fixed_at_start;
    return op.workspace_bytes + fixed;
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
