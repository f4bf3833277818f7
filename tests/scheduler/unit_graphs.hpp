// Graphs of kumar2019's unit model: each op makes one value of 1 byte in 1 ns and runs in any order
// that finds its inputs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"

namespace ebbtide::scheduler {

class UnitGraph {
 public:
  UnitGraph() { graph_.any_order = true; }

  ValueId add(std::vector<ValueId> inputs, Bytes bytes = 1) {
    const auto id = static_cast<std::int32_t>(graph_.ops.size());
    graph_.values.push_back({.bytes = bytes, .producer = id});
    graph_.ops.push_back({.name = "n" + std::to_string(id),
                          .duration_ns = 1,
                          .rerunnable = true,
                          .inputs = std::move(inputs),
                          .outputs = {id}});
    return id;
  }

  // Gradients of every op so far, last first: one node an op, which reads the op's inputs and the
  // gradients of its readers.
  void addBackward() {
    const auto forward = static_cast<std::int32_t>(graph_.ops.size());
    std::vector<std::vector<ValueId>> readers(graph_.ops.size());
    for (std::int32_t op = 0; op < forward; ++op) {
      for (ValueId input : graph_.ops[op].inputs) readers[input].push_back(op);
    }
    std::vector<ValueId> gradient(graph_.ops.size());
    for (std::int32_t op = forward; op-- > 0;) {
      std::vector<ValueId> inputs = graph_.ops[op].inputs;
      if (readers[op].empty()) inputs.push_back(op);
      for (ValueId reader : readers[op]) inputs.push_back(gradient[reader]);
      gradient[op] = add(std::move(inputs));
    }
  }

  Graph take() { return std::move(graph_); }

 private:
  Graph graph_;
};

// n ops forward, n backward.
inline Graph unitTrainingChain(int n) {
  UnitGraph graph;
  ValueId last = graph.add({});
  for (int i = 1; i < n; ++i) last = graph.add({last});
  graph.addBackward();
  return graph.take();
}

// A complete binary tree of 2^levels - 1 ops, leaves first, one op reading two. In program order
// all leaves are live together.
inline Graph unitTree(int levels) {
  UnitGraph graph;
  std::vector<ValueId> row;
  for (int i = 0; i < 1 << (levels - 1); ++i) row.push_back(graph.add({}));
  while (row.size() > 1) {
    std::vector<ValueId> next;
    for (std::size_t i = 0; i < row.size(); i += 2) next.push_back(graph.add({row[i], row[i + 1]}));
    row = std::move(next);
  }
  return graph.take();
}

// `depth` ops down, as many up, each of these reading its own of the way down too; and backward.
inline Graph unitTrainingUNet(int depth) {
  UnitGraph graph;
  std::vector<ValueId> down = {graph.add({})};
  for (int i = 1; i < depth; ++i) down.push_back(graph.add({down.back()}));
  ValueId last = graph.add({down.back()});
  for (int i = depth; i-- > 0;) last = graph.add({last, down[static_cast<std::size_t>(i)]});
  graph.addBackward();
  return graph.take();
}

}  // namespace ebbtide::scheduler
