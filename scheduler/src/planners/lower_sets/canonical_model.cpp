#include "planners/lower_sets/canonical_model.hpp"

#include <algorithm>
#include <string>

namespace ebbtide::scheduler {
namespace {

// Gradients of v's successors, then the forward values that their backward reads: ids as above.
std::vector<ValueId> backwardInputs(const LowerSetProblem& problem,
                                    const std::vector<std::vector<std::int32_t>>& previous,
                                    std::int32_t node) {
  const auto last = static_cast<std::int32_t>(2 * problem.time.size()) - 1;
  std::vector<ValueId> inputs{node};
  for (std::int32_t w : problem.next[node]) {
    inputs.push_back(last - w);
    inputs.insert(inputs.end(), previous[w].begin(), previous[w].end());
  }
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  return inputs;
}

bool isForward(const Graph& graph, OpId id) {
  const Op& op = graph.ops[id];
  return op.rerunnable && !op.backward && op.workspace_bytes == 0 &&
         op.outputs == std::vector<ValueId>{id};
}

bool isBackward(const Graph& graph, OpId id, const std::vector<ValueId>& reads) {
  const Op& op = graph.ops[id];
  std::vector<ValueId> inputs = op.inputs;
  std::sort(inputs.begin(), inputs.end());
  return op.backward && op.outputs == std::vector<ValueId>{id} && inputs == reads;
}

}  // namespace

Graph canonicalGraph(const LowerSetProblem& problem) {
  const auto nodes = static_cast<std::int32_t>(problem.time.size());
  const auto previous = previousNodes(problem);
  Graph graph;
  graph.any_order = true;
  for (std::int32_t v = 0; v < nodes; ++v) {
    graph.values.push_back({.bytes = problem.memory[v], .producer = v});
    graph.ops.push_back({.name = "f" + std::to_string(v),
                         .duration_ns = problem.time[v],
                         .rerunnable = true,
                         .inputs = previous[v],
                         .outputs = {v}});
  }
  for (std::int32_t v = nodes; v-- > 0;) {
    const OpId id = 2 * nodes - 1 - v;
    graph.values.push_back({.bytes = problem.memory[v], .producer = id});
    graph.ops.push_back({.name = "b" + std::to_string(v),
                         .backward = true,
                         .inputs = backwardInputs(problem, previous, v),
                         .outputs = {id}});
  }
  return graph;
}

std::optional<LowerSetProblem> canonicalProblem(const Graph& graph) {
  const std::size_t nodes = graph.ops.size() / 2;
  if (!graph.any_order || graph.lazy_outputs || nodes == 0) return std::nullopt;
  if (graph.ops.size() != 2 * nodes || graph.values.size() != 2 * nodes) return std::nullopt;
  LowerSetProblem problem;
  problem.next.resize(nodes);
  for (std::size_t v = 0; v < nodes; ++v) {
    const OpId id = static_cast<OpId>(v);
    const Value& value = graph.values[v];
    const Value& gradient = graph.values[2 * nodes - 1 - v];
    if (!isForward(graph, id) || value.pinned || gradient.pinned) return std::nullopt;
    if (value.bytes != gradient.bytes) return std::nullopt;
    problem.time.push_back(graph.ops[v].duration_ns);
    problem.memory.push_back(value.bytes);
    for (ValueId input : graph.ops[v].inputs) problem.next[input].push_back(id);
  }
  const auto previous = previousNodes(problem);
  for (std::size_t v = 0; v < nodes; ++v) {
    const auto node = static_cast<std::int32_t>(v);
    const OpId id = static_cast<OpId>(2 * nodes) - 1 - node;
    if (!isBackward(graph, id, backwardInputs(problem, previous, node))) return std::nullopt;
  }
  return problem;
}

}  // namespace ebbtide::scheduler
