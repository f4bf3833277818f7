// The least time to replay within a budget over all schedules of a tiny graph without overwriting,
// by Dijkstra's algorithm over (ops run first so far, values live). Shares nothing with planners.
#pragma once

#include <map>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"

namespace ebbtide::scheduler {

class StepBruteForce {
 public:
  StepBruteForce(const Graph& graph, Bytes budget) : graph_(graph), budget_(budget) {}

  std::optional<Nanoseconds> leastNs() {
    std::uint32_t sources = 0;
    for (std::size_t id = 0; id < graph_.values.size(); ++id) {
      if (graph_.values[id].producer == kNone) sources |= 1u << id;
    }
    push({0, sources}, 0);
    while (!queue_.empty()) {
      const auto [time, state] = queue_.top();
      queue_.pop();
      if (state.first == graph_.ops.size()) return time;
      if (time > best_.at(state)) continue;
      expand(state, time);
    }
    return std::nullopt;
  }

 private:
  using State = std::pair<std::size_t, std::uint32_t>;  // the next first run, live values
  using Entry = std::pair<Nanoseconds, State>;

  Bytes bytes(std::uint32_t values) const {
    Bytes sum = 0;
    for (std::size_t id = 0; id < graph_.values.size(); ++id) {
      if ((values >> id & 1) != 0 && !graph_.values[id].pinned) sum += graph_.values[id].bytes;
    }
    return sum;
  }
  static std::uint32_t setOf(const std::vector<ValueId>& values) {
    std::uint32_t set = 0;
    for (ValueId value : values) set |= 1u << value;
    return set;
  }
  // By the program, before the first run of `next`.
  bool held(std::size_t id, std::size_t next) const {
    return graph_.values[id].natural_last >= static_cast<OpId>(next) &&
           graph_.values[id].producer < static_cast<OpId>(next);
  }

  void push(const State& state, Nanoseconds time) {
    const auto [found, added] = best_.try_emplace(state, time);
    if (!added && found->second <= time) return;
    found->second = time;
    queue_.emplace(time, state);
  }

  void expand(const State& state, Nanoseconds time) {
    const auto [next, live] = state;
    const Op& op = graph_.ops[next];
    const std::uint32_t inputs = setOf(op.inputs), outputs = setOf(op.outputs);
    const bool ready = (inputs & ~live) == 0;
    if (ready && bytes(live | outputs) + op.fixed_bytes <= budget_) {
      push({next + 1, live | outputs}, time);
    }
    // What the program holds costs nothing to keep.
    for (std::size_t id = 0; id < graph_.values.size(); ++id) {
      if ((live >> id & 1) != 0 && !held(id, next)) push({next, live & ~(1u << id)}, time);
    }
    const Bytes fixed = op.fixed_at_start == kNone ? op.fixed_bytes : op.fixed_at_start;
    for (std::size_t id = 0; id < next; ++id) {
      const Op& again = graph_.ops[id];
      if (!again.rerunnable || (setOf(again.inputs) & ~live) != 0) continue;
      const std::uint32_t made = live | setOf(again.outputs);
      Bytes twice = 0;  // copies made beside those at hand
      for (ValueId output : again.outputs) {
        if ((live >> output & 1) != 0) twice += bytes(1u << output);
      }
      if (bytes(made) + twice + again.workspace_bytes + fixed > budget_) continue;
      push({next, made}, time + again.duration_ns);
    }
  }

  const Graph& graph_;
  const Bytes budget_;
  std::map<State, Nanoseconds> best_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

// A step of few ops in a chain with some skips: values of 1 to 9 bytes that the program holds until
// their last reader, ops of 1 to 9 ns.
inline Graph tinyStep(std::uint64_t seed, int forward_ops) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::size_t size) { return static_cast<std::size_t>(random() % size); };
  Graph graph;
  graph.values.push_back({.pinned = true});
  for (OpId id = 0; id < forward_ops; ++id) {
    std::set<ValueId> inputs = {static_cast<ValueId>(id)};  // value i is made by op i-1
    if (pick(3) == 0) inputs.insert(static_cast<ValueId>(pick(static_cast<std::size_t>(id) + 1)));
    for (ValueId input : inputs) graph.values[input].natural_last = id;
    graph.values.push_back({.bytes = static_cast<Bytes>(1 + pick(9)), .producer = id});
    graph.ops.push_back({.duration_ns = static_cast<Nanoseconds>(1 + pick(9)),
                         .fixed_bytes = static_cast<Bytes>(pick(3)),
                         .rerunnable = true,
                         .inputs = {inputs.begin(), inputs.end()},
                         .outputs = {id + 1}});
  }
  for (OpId id = forward_ops; id-- > 0;) {
    std::vector<ValueId> inputs;
    for (ValueId value : graph.ops[id].inputs) {
      if (pick(2) == 0 && value > 0) inputs.push_back(value);
    }
    if (pick(2) == 0) inputs.push_back(id + 1);
    graph.ops.push_back({.duration_ns = 1,
                         .fixed_bytes = static_cast<Bytes>(pick(5)),
                         .backward = true,
                         .inputs = std::move(inputs)});
  }
  return graph;
}

}  // namespace ebbtide::scheduler
