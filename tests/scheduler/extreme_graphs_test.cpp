// Graphs at the edges of what checkGraph() lets through: every planner gives a legal schedule with
// honest numbers, or says why not. Overflows show under the preset asan, which has UBSan.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "ebbtide/scheduler/graph_file.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "honest_plan.hpp"
#include "model/chain.hpp"
#include "mutations.hpp"
#include "planners/lower_sets/canonical_model.hpp"
#include "random_graphs.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 60;  // checkGraph()

Graph oneOp() {
  Graph graph;
  addForward(graph, {}, 0, 0);
  return graph;
}

Graph oneOpAndItsEvent() {
  Graph graph;
  addEvent(graph, {addForward(graph, {}, 7, 3)}, 5);
  return graph;
}

// The structure of a random step, sizes and times set anew.
Graph withWeights(std::uint64_t seed, Bytes bytes, Nanoseconds duration) {
  Graph graph = randomGraph(seed, 20);
  for (Value& value : graph.values) value.bytes = bytes;
  for (Op& op : graph.ops) {
    op.duration_ns = duration;
    op.fixed_bytes = op.workspace_bytes = bytes;
    op.fixed_at_start = kNone;
  }
  return graph;
}

// As large as it may be: bytes once for each value and an op's fixed bytes and workspace.
Graph largest(std::uint64_t seed) {
  const Graph shape = randomGraph(seed, 20);
  const auto values = static_cast<std::int64_t>(shape.values.size());
  const auto ops = static_cast<std::int64_t>(shape.ops.size());
  return withWeights(seed, kMost / (values + 2), kMost / ops / ops);
}

Graph oneHugeValue() {
  Graph graph = chain(5);
  graph.values[3].bytes = kMost - 40;  // four others of 10 bytes
  graph.ops[2].duration_ns = kMost / 10 - 9;
  return graph;
}

Graph deepChain() {
  return chain(1000);  // 2,000 ops
}

// One value that 200 ops read, and an event of each.
Graph wideFan() {
  Graph graph;
  const ValueId first = addForward(graph, {addGraphInput(graph, 10, true)}, 100, 5);
  std::vector<ValueId> leaves;
  for (int i = 0; i < 200; ++i) leaves.push_back(addForward(graph, {first}, 10, 1));
  for (auto leaf = leaves.rbegin(); leaf != leaves.rend(); ++leaf) addEvent(graph, {*leaf, first});
  return graph;
}

// One op, and its event, that read 500 values.
Graph wideJoin() {
  Graph graph;
  std::vector<ValueId> parts;
  for (int i = 0; i < 500; ++i) parts.push_back(addForward(graph, {}, 10, 1));
  addForward(graph, parts, 10, 1);
  addEvent(graph, parts);
  return graph;
}

Graph manyComponents() {
  Graph graph;
  std::vector<ValueId> ends;
  for (int i = 0; i < 60; ++i) {
    const ValueId value = addForward(graph, {}, 10 + i, 1 + i % 5);
    ends.push_back(addForward(graph, {value}, 20, 2));
    ends.push_back(value);
  }
  for (ValueId value : ends) addEvent(graph, {value});
  return graph;
}

Graph onlyEvents() {
  Graph graph;
  const ValueId source = addGraphInput(graph, 10);
  for (int i = 0; i < 5; ++i) addEvent(graph, {source}, i);
  return graph;
}

// A paper's graph: node v and its edges to v + 1 and v + 7.
Graph paperGraph(std::size_t nodes, std::int64_t time, std::int64_t memory) {
  LowerSetProblem problem;
  problem.time.assign(nodes, time);
  problem.memory.assign(nodes, memory);
  problem.next.resize(nodes);
  for (std::size_t v = 0; v < nodes; ++v) {
    for (std::size_t w : {v + 1, v + 7}) {
      if (w < nodes) problem.next[v].push_back(static_cast<std::int32_t>(w));
    }
  }
  return canonicalGraph(problem);
}

// moccasin2023's form: any order, each node an op with one value.
Graph anyOrder(std::size_t nodes, Bytes bytes, Nanoseconds duration) {
  Graph graph;
  graph.any_order = true;
  for (std::size_t i = 0; i < nodes; ++i) {
    const auto id = static_cast<std::int32_t>(i);
    graph.values.push_back({.bytes = bytes, .producer = id});
    Op op{.name = "n", .duration_ns = duration, .rerunnable = true, .outputs = {id}};
    if (i > 0) op.inputs.push_back(id - 1);
    if (i > 9) op.inputs.push_back(id / 2 - 1);
    graph.ops.push_back(op);
  }
  return graph;
}

Graph chainOf(std::size_t stages, std::int64_t bytes, Nanoseconds duration, CostModel model) {
  const std::vector<Bytes> each(stages, bytes), none(stages, 0);
  return chainGraph({each, each, none, none, std::vector<Nanoseconds>(stages, duration),
                     std::vector<Nanoseconds>(stages, duration)},
                    model);
}

struct Extreme {
  std::string name;
  std::function<Graph()> make;
  friend void PrintTo(const Extreme& extreme, std::ostream* out) { *out << extreme.name; }
};

class ExtremeGraph : public testing::TestWithParam<Extreme> {};

// Little search; and a deadline, since some programs take long on the large ones.
PlannerOptions quick(const Planner& planner) {
  PlannerOptions options;
  for (const PlannerOption& option : planner.info().options) {
    if (option.name == "work") options.named["work"] = "5000";
  }
  options.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(3);
  return options;
}

void expectPlannedOrRefused(const Graph& graph) {
  const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
  const Bytes bound = peakLowerBound(graph);
  EXPECT_LE(bound, peak);
  for (const Bytes budget :
       {Bytes{-1}, Bytes{0}, bound + (peak - bound) / 2, std::numeric_limits<Bytes>::max()}) {
    EXPECT_GE(recomputeLowerBound(graph, budget), 0);
    for (const auto& planner : planners()) {
      SCOPED_TRACE(testing::Message() << planner->info().name << ", budget " << budget);
      try {
        expectHonest(graph, budget, planner->plan(graph, budget, quick(*planner)));
      } catch (const std::invalid_argument& error) {
        EXPECT_STRNE(error.what(), "");
      }
    }
  }
}

TEST_P(ExtremeGraph, IsPlannedOrRefused) {
  const Graph graph = GetParam().make();
  checkGraph(graph);
  expectPlannedOrRefused(graph);
}

// Damaged files that still are graphs: among their numbers are 0 and 2^60.
TEST(DamagedGraph, IsPlannedOrRefused) {
  int planned = 0;
  const std::string text = toJson(randomGraph(3, 6));
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph;
    try {
      graph = readGraph(Mutations(seed).apply(text), GraphFormat::kGraph, CostModel::kReal);
    } catch (const std::invalid_argument&) {
      continue;
    }
    expectPlannedOrRefused(graph);
    ++planned;
  }
  EXPECT_GE(planned, 10);
}

INSTANTIATE_TEST_SUITE_P(
    All, ExtremeGraph,
    testing::Values(
        Extreme{"one_op", oneOp}, Extreme{"one_op_and_its_event", oneOpAndItsEvent},
        Extreme{"only_events", onlyEvents},
        Extreme{"nothing_has_size_or_time", [] { return withWeights(1, 0, 0); }},
        Extreme{"nothing_has_size", [] { return withWeights(2, 0, 9); }},
        Extreme{"nothing_takes_time", [] { return withWeights(3, 9, 0); }},
        Extreme{"largest_4", [] { return largest(4); }},
        Extreme{"largest_5", [] { return largest(5); }}, Extreme{"one_huge_value", oneHugeValue},
        Extreme{"deep_chain", deepChain}, Extreme{"wide_fan", wideFan},
        Extreme{"wide_join", wideJoin}, Extreme{"many_components", manyComponents},
        Extreme{"paper_one_node", [] { return paperGraph(1, 0, 0); }},
        // Forward values and gradients: twice the nodes.
        Extreme{"paper_largest", [] { return paperGraph(20, kMost / 40 / 40, kMost / 40); }},
        Extreme{"any_order_one_op", [] { return anyOrder(1, 0, 0); }},
        Extreme{"any_order_largest", [] { return anyOrder(30, kMost / 30, kMost / 30 / 30); }},
        Extreme{"any_order_deep", [] { return anyOrder(600, 10, 1); }},
        Extreme{"loss_alone", [] { return chainOf(1, 0, 0, CostModel::kReal); }},
        Extreme{"chain_largest",  // checkChain() wants a total below 2^60, gradients counted
                [] { return chainOf(20, kMost / 200, kMost / 40 / 40, CostModel::kPaper); }},
        Extreme{"chain_zero", [] { return chainOf(20, 0, 0, CostModel::kPaper); }}),
    [](const auto& param) { return param.param.name; });

TEST(ExtremeSizes, AreRefusedBeforeTheyOverflow) {
  for (const std::int64_t most :
       {std::int64_t{1} << 61, std::int64_t{1} << 62, std::numeric_limits<std::int64_t>::max()}) {
    Graph graph = chain(3);
    graph.values[2].bytes = most;
    EXPECT_THROW(checkGraph(graph), std::invalid_argument);
    graph = chain(3);
    graph.ops[1].duration_ns = most;
    EXPECT_THROW(checkGraph(graph), std::invalid_argument);
    graph = chain(3);
    graph.ops[5].fixed_bytes = most;
    EXPECT_THROW(checkGraph(graph), std::invalid_argument);
  }
}

TEST(DuplicatedEdge, IsRefusedInAGraph) {
  Graph graph = chain(3);
  graph.ops[1].inputs.push_back(graph.ops[1].inputs[0]);
  EXPECT_THROW(checkGraph(graph), std::invalid_argument);
}

}  // namespace
}  // namespace ebbtide::scheduler
