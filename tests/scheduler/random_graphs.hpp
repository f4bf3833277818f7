// Random training steps for property tests: forward ops in program order, then backward events in
// reverse. In-place chains, graph inputs, pinned values, ops that may not be rerun and values that
// the program holds for some while are all present.
#pragma once

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "ebbtide/scheduler/value_copies.hpp"

namespace ebbtide::scheduler {

class RandomGraph {
 public:
  // So many forward passes of so many ops, each with its backward pass.
  RandomGraph(std::uint64_t seed, std::size_t forward_ops, int passes = 1) : random_(seed) {
    for (std::size_t i = 0, sources = 1 + pick(3); i < sources; ++i) {
      const ValueId source = addValue(kNone, kNone);
      graph_.values[source].pinned = chance(50);
    }
    for (int pass = 0; pass < passes; ++pass) {
      const std::size_t begin = graph_.ops.size();
      for (std::size_t i = 0; i < forward_ops; ++i) addForward();
      for (std::size_t i = begin + forward_ops; i-- > begin;) addEvent(static_cast<OpId>(i));
      if (pass + 1 < passes && chance(50)) addGap();
    }
    setLastReferences();
  }
  Graph take() { return std::move(graph_); }

 private:
  std::size_t pick(std::size_t size) { return static_cast<std::size_t>(random_() % size); }
  bool chance(std::size_t percent) { return pick(100) < percent; }

  ValueId addValue(OpId producer, ValueId previous) {
    Value value;
    value.bytes = previous == kNone ? static_cast<Bytes>(pick(100)) : graph_.values[previous].bytes;
    value.producer = producer;
    value.previous_epoch = previous;
    graph_.values.push_back(value);
    return static_cast<ValueId>(graph_.values.size()) - 1;
  }

  // A value that no op has overwritten, most often a recent one; kNone if that fails.
  ValueId recent() {
    for (int attempt = 0; attempt < 8; ++attempt) {
      const std::size_t reach =
          chance(80) ? std::min<std::size_t>(6, graph_.values.size()) : graph_.values.size();
      const ValueId value = static_cast<ValueId>(graph_.values.size() - 1 - pick(reach));
      if (graph_.values[value].overwritten_by == kNone) return value;
    }
    return kNone;
  }

  void addForward() {
    const OpId id = static_cast<OpId>(graph_.ops.size());
    Op op;
    op.name = "f" + std::to_string(pick(5));
    op.duration_ns = static_cast<Nanoseconds>(pick(50));
    op.fixed_bytes = static_cast<Bytes>(pick(20));
    op.workspace_bytes = static_cast<Bytes>(pick(10));
    op.rerunnable = chance(85);
    for (std::size_t i = 0, count = 1 + pick(3); i < count; ++i) {
      const ValueId input = recent();
      if (input == kNone || std::count(op.inputs.begin(), op.inputs.end(), input) > 0) continue;
      op.inputs.push_back(input);
    }
    ValueId previous = kNone;
    if (!op.inputs.empty() && chance(20)) {
      previous = op.inputs[0];
      if (graph_.values[previous].pinned && chance(90)) previous = kNone;
    }
    if (previous != kNone) graph_.values[previous].overwritten_by = id;
    graph_.ops.push_back(op);
    for (std::size_t i = 0, count = 1 + pick(4) / 3; i < count; ++i) {
      const ValueId output = addValue(id, i == 0 ? previous : kNone);
      if (previous != kNone && i == 0)
        graph_.values[output].pinned = graph_.values[previous].pinned;
      graph_.ops[id].outputs.push_back(output);
    }
  }

  void addEvent(OpId forward) {
    if (chance(15)) return;
    Op event;
    event.name = "b" + std::to_string(forward);
    event.backward = true;
    event.duration_ns = static_cast<Nanoseconds>(pick(50));
    event.fixed_bytes = static_cast<Bytes>(pick(40));
    for (const auto& list : {graph_.ops[forward].inputs, graph_.ops[forward].outputs}) {
      for (ValueId value : list) {
        if (graph_.values[value].overwritten_by == kNone && chance(50))
          event.inputs.push_back(value);
      }
    }
    graph_.ops.push_back(event);
  }

  void addGap() {
    graph_.ops.push_back(
        {.fixed_bytes = static_cast<Bytes>(pick(40)), .backward = true, .inputs = {}});
  }

  void setLastReferences() {
    std::vector<OpId> last(graph_.values.size(), kNone);
    for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
      if (graph_.ops[id].backward) continue;
      for (ValueId input : graph_.ops[id].inputs) last[input] = static_cast<OpId>(id);
    }
    for (std::size_t id = 0; id < last.size(); ++id) {
      if (chance(25)) continue;
      OpId until = last[id];
      if (chance(30)) until = std::max(until, static_cast<OpId>(pick(graph_.ops.size())));
      graph_.values[id].last_reference = until;
    }
  }

  std::mt19937_64 random_;
  Graph graph_;
};

inline Graph randomGraph(std::uint64_t seed, std::size_t forward_ops) {
  return RandomGraph(seed, forward_ops).take();
}

// Two microbatches.
inline Graph randomAccumulatingStep(std::uint64_t seed, std::size_t forward_ops) {
  return RandomGraph(seed, forward_ops, 2).take();
}

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
    for (ValueId input : inputs) graph.values[input].last_reference = id;
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

// Half of the values are masks; masks that pay get an encoded copy. With every other seed
// the others may be written to the host.
inline Graph withCopies(Graph graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Trace trace;
  for (const Value& value : graph.values) {
    TraceValue& recorded = trace.values.emplace_back();
    if (random() % 2 == 0) continue;
    recorded.encoded_bytes = value.bytes / 8 + 1;
    recorded.codec_ns = static_cast<Nanoseconds>(random() % 5);
  }
  if (seed % 2 == 1) trace.host = {.bytes_per_second = 2'000'000'000};  // 2 B a nanosecond
  TraceGraph step;
  step.trace_op_of.assign(graph.ops.size(), kNone);
  step.graph = std::move(graph);
  addValueCopies(trace, step);
  return std::move(step.graph);
}

// The program waits before some of its ops.
inline Graph withWaits(const Graph& graph, std::uint64_t seed, std::size_t percent = 15) {
  std::mt19937_64 random(seed);
  Graph result;
  std::vector<OpId> moved;
  for (const Op& op : graph.ops) {
    if (random() % 100 < percent) {
      result.ops.push_back(
          {.fixed_bytes = static_cast<Bytes>(random() % 30), .waits = true, .inputs = {}});
    }
    moved.push_back(static_cast<OpId>(result.ops.size()));
    result.ops.push_back(op);
  }
  result.values = graph.values;
  for (Value& value : result.values) {
    for (OpId* op : {&value.producer, &value.last_reference, &value.overwritten_by}) {
      if (*op != kNone) *op = moved[*op];
    }
  }
  return result;
}

// One step after the other, as microbatches are.
inline Graph inTurn(Graph first, const Graph& second) {
  const auto ops = static_cast<OpId>(first.ops.size());
  const auto values = static_cast<ValueId>(first.values.size());
  const auto shifted = [](std::int32_t id, std::int32_t by) {
    return id == kNone ? kNone : id + by;
  };
  for (Op op : second.ops) {
    for (auto* list : {&op.inputs, &op.outputs}) {
      for (ValueId& value : *list) value += values;
    }
    first.ops.push_back(std::move(op));
  }
  for (Value value : second.values) {
    value.producer = shifted(value.producer, ops);
    value.last_reference = shifted(value.last_reference, ops);
    value.overwritten_by = shifted(value.overwritten_by, ops);
    value.previous_epoch = shifted(value.previous_epoch, values);
    first.values.push_back(value);
  }
  return first;
}

}  // namespace ebbtide::scheduler
