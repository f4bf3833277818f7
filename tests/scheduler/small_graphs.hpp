// Hand-made graphs whose numbers can be derived in a comment.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/schedule.hpp"

namespace ebbtide::scheduler {

inline Step run(OpId op) {
  return {Step::Kind::kRun, op};
}
inline Step drop(ValueId value) {
  return {Step::Kind::kDrop, value};
}
inline Step offload(ValueId value) {
  return {Step::Kind::kOffload, value};
}
inline Step fetch(ValueId value) {
  return {Step::Kind::kFetch, value};
}

inline ValueId addGraphInput(Graph& graph, Bytes bytes, bool pinned = false) {
  graph.values.push_back({.bytes = bytes, .pinned = pinned});
  return static_cast<ValueId>(graph.values.size()) - 1;
}

// A rerunnable forward op with one output, which the program holds until its last forward reader.
inline ValueId addForward(Graph& graph, std::vector<ValueId> inputs, Bytes bytes,
                          Nanoseconds duration) {
  const OpId op = static_cast<OpId>(graph.ops.size());
  for (ValueId input : inputs) graph.values[input].last_reference = op;
  const ValueId output = static_cast<ValueId>(graph.values.size());
  graph.values.push_back({.bytes = bytes, .producer = op});
  graph.ops.push_back({.name = "f" + std::to_string(op),
                       .duration_ns = duration,
                       .rerunnable = true,
                       .inputs = std::move(inputs),
                       .outputs = {output}});
  return output;
}

// An op that writes in place over `input`.
inline ValueId addInPlace(Graph& graph, ValueId input, Nanoseconds duration) {
  const ValueId output = addForward(graph, {input}, graph.values[input].bytes, duration);
  graph.values[input].overwritten_by = graph.values[output].producer;
  graph.values[output].previous_epoch = input;
  return output;
}

inline OpId addEvent(Graph& graph, std::vector<ValueId> inputs, Bytes fixed = 0) {
  const OpId op = static_cast<OpId>(graph.ops.size());
  graph.ops.push_back({.name = "b" + std::to_string(op),
                       .duration_ns = 1,
                       .fixed_bytes = fixed,
                       .backward = true,
                       .inputs = std::move(inputs)});
  return op;
}

// The program waits for a message.
inline OpId addWait(Graph& graph, Bytes fixed = 0) {
  graph.ops.push_back({.name = "wait", .fixed_bytes = fixed, .waits = true, .inputs = {}});
  return static_cast<OpId>(graph.ops.size()) - 1;
}

// x -> v1 -> v2 -> ... -> vn, each of 10 bytes and 1 ns; then events that read vn, ..., v1. Graph
// input x is pinned. Ops 0..n-1 are forward, n..2n-1 the events; value 0 is x, value i the output
// of op i-1.
inline Graph chain(int length) {
  Graph graph;
  ValueId last = addGraphInput(graph, 0, true);
  std::vector<ValueId> values;
  for (int i = 0; i < length; ++i) values.push_back(last = addForward(graph, {last}, 10, 1));
  for (int i = length; i-- > 0;) addEvent(graph, {values[i]});
  return graph;
}

// x -> a -> (in place) b; an event reads b. All of 10 bytes; x is a graph input.
inline Graph inPlaceGraph() {
  Graph graph;
  const ValueId x = addGraphInput(graph, 10);
  addEvent(graph, {addInPlace(graph, addForward(graph, {x}, 10, 1), 1)});
  return graph;  // values: 0 x, 1 a, 2 b; ops: 0, 1, event 2
}

}  // namespace ebbtide::scheduler
