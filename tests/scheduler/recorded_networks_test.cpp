// Planners on the recorded training steps in tests/data/traces: a GPT, ResNet-50, DenseNet-121, a
// U-Net, as large as they are in the papers in all but images and widths.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <ostream>
#include <stdexcept>
#include <string>

#include "base/gzip.hpp"
#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/graph_file.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "honest_plan.hpp"

namespace ebbtide::scheduler {
namespace {

struct Network {
  std::string name;
  std::map<std::string, int> ops;  // of the forward pass, by name
  Bytes peak_bytes;
  friend void PrintTo(const Network& network, std::ostream* out) { *out << network.name; }
};

std::string packedTrace(const std::string& name) {
  const std::string path = std::string(EBBTIDE_TRACES) + "/" + name + ".json.gz";
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("no " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class RecordedNetwork : public testing::TestWithParam<Network> {
 protected:
  void SetUp() override { packed_ = packedTrace(GetParam().name); }

  Trace trace() const { return traceFromJson(unpackGzip(packed_)); }

  // What keeping everything takes, less half of the activations.
  static Bytes halfTheActivations(const TraceGraph& step) {
    return GetParam().peak_bytes - step.activation_bytes / 2;
  }

  static void expectHonest(const Graph& graph, Bytes budget, const PlanResult& result) {
    scheduler::expectHonest(graph, budget, result);
    EXPECT_GE(result.peak_bytes, peakLowerBound(graph));
    if (result.feasible) {
      EXPECT_GE(result.recompute_ns, recomputeLowerBound(graph, budget));
    }
  }

  std::string packed_;
};

TEST_P(RecordedNetwork, HasTheNetworksOps) {
  std::map<std::string, int> ops;
  for (const TraceOp& op : trace().ops) ++ops[op.name];
  EXPECT_EQ(ops, GetParam().ops);
}

// The allocator's stream alone, and what the simulator makes of the graph.
TEST_P(RecordedNetwork, HasThePeakThatTheAllocatorSaw) {
  const Trace step = trace();
  Bytes live = step.base_bytes, peak = live;
  for (const TraceEvent& event : step.events) {
    if (event.kind == TraceEvent::Kind::kAlloc) live += step.blocks[event.id].bytes;
    if (event.kind == TraceEvent::Kind::kFree) live -= step.blocks[event.id].bytes;
    peak = std::max(peak, live);
  }
  EXPECT_EQ(peak, GetParam().peak_bytes);
  EXPECT_EQ(live, step.base_bytes);  // momenta are there from the second step on
  const Graph graph = readGraph(packed_, GraphFormat::kAuto, CostModel::kReal);
  EXPECT_EQ(simulate(graph, keepEverything(graph)).peak_bytes, peak);
}

// Little search, and a deadline for what has no option that bounds it.
TEST_P(RecordedNetwork, IsPlannedByEveryPlanner) {
  const TraceGraph step = buildGraph(trace());
  const Bytes budget = halfTheActivations(step);
  ASSERT_GT(budget, peakLowerBound(step.graph));
  int planned = 0;
  for (const auto& planner : planners()) {
    SCOPED_TRACE(planner->info().name);
    PlannerOptions options;
    for (const PlannerOption& option : planner->info().options) {
      if (option.name == "work") options.named["work"] = "100000";
    }
    options.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(25);
    try {
      expectHonest(step.graph, budget, planner->plan(step.graph, budget, options));
      ++planned;
    } catch (const std::invalid_argument& error) {
      EXPECT_STRNE(error.what(), "");  // made for another kind of graph
    }
  }
  EXPECT_GE(planned, 8);
}

// No deadline: the work alone bounds it, so this says the same on any machine. Each op once more is
// enough for half of the activations of each of these networks.
TEST_P(RecordedNetwork, GivesHalfOfItsActivationsForLessThanAForwardPass) {
  const TraceGraph step = buildGraph(trace());
  const Bytes budget = halfTheActivations(step);
  PlannerOptions options;
  options.named["work"] = "300000";
  const PlanResult result = planner("greedy").plan(step.graph, budget, options);
  expectHonest(step.graph, budget, result);
  EXPECT_TRUE(result.feasible);
  Nanoseconds forward = 0;
  for (const Op& op : step.graph.ops) forward += op.rerunnable ? op.duration_ns : 0;
  EXPECT_LT(result.recompute_ns, forward / 2);
}

// GPT: a layer has 2 normalisations, 4 products with weights (addmm), 2 others (bmm), a clone of
// queries, keys, values and mixed; dropout is empty_like, bernoulli_, div_ and mul, three times a
// layer and once after the embeddings; mul scales the scores as well: 37 + 12. Two residual sums a
// layer and that of the embeddings: 25.
const std::map<std::string, int> kGptOps = {{"aten::_log_softmax", 1},
                                            {"aten::_softmax", 12},
                                            {"aten::add", 25},
                                            {"aten::addmm", 48},
                                            {"aten::bernoulli_", 37},
                                            {"aten::bmm", 24},
                                            {"aten::clone", 49},
                                            {"aten::div_", 37},
                                            {"aten::embedding", 1},
                                            {"aten::empty_like", 37},
                                            {"aten::gelu", 12},
                                            {"aten::masked_fill", 12},
                                            {"aten::mm", 1},
                                            {"aten::mul", 49},
                                            {"aten::native_layer_norm", 25},
                                            {"aten::nll_loss_forward", 1},
                                            {"aten::ones", 12},
                                            {"aten::ones_like", 1},
                                            {"aten::triu", 12}};

// 1 + 16 blocks x 3 + 4 shortcuts = 53 convolutions, each with a normalisation and its counter
// (add_); 1 + 16 x 3 = 49 ReLUs.
const std::map<std::string, int> kResnetOps = {{"aten::_log_softmax", 1},
                                               {"aten::add", 16},
                                               {"aten::add_", 53},
                                               {"aten::addmm", 1},
                                               {"aten::convolution", 53},
                                               {"aten::max_pool2d_with_indices", 1},
                                               {"aten::mean", 1},
                                               {"aten::native_batch_norm", 53},
                                               {"aten::nll_loss_forward", 1},
                                               {"aten::ones_like", 1},
                                               {"aten::relu_", 49}};

// 1 + 58 layers x 2 + 3 transitions = 120 convolutions, and a last normalisation; 58 layers and 4
// blocks concatenate.
const std::map<std::string, int> kDensenetOps = {{"aten::_log_softmax", 1},
                                                 {"aten::add_", 121},
                                                 {"aten::addmm", 1},
                                                 {"aten::avg_pool2d", 3},
                                                 {"aten::cat", 62},
                                                 {"aten::convolution", 120},
                                                 {"aten::max_pool2d_with_indices", 1},
                                                 {"aten::mean", 1},
                                                 {"aten::native_batch_norm", 121},
                                                 {"aten::nll_loss_forward", 1},
                                                 {"aten::ones_like", 1},
                                                 {"aten::relu_", 121}};

// 5 levels down and 4 up of 2 convolutions each, 4 transposed ones and the last: 23.
const std::map<std::string, int> kUnetOps = {{"aten::_log_softmax", 1},
                                             {"aten::add_", 18},
                                             {"aten::cat", 4},
                                             {"aten::convolution", 23},
                                             {"aten::max_pool2d_with_indices", 4},
                                             {"aten::native_batch_norm", 18},
                                             {"aten::nll_loss2d_forward", 1},
                                             {"aten::ones_like", 1},
                                             {"aten::relu_", 18}};

INSTANTIATE_TEST_SUITE_P(All, RecordedNetwork,
                         testing::Values(Network{"gpt", kGptOps, 447'458'560},
                                         Network{"resnet50", kResnetOps, 371'937'280},
                                         Network{"densenet121", kDensenetOps, 234'260'992},
                                         Network{"unet", kUnetOps, 90'404'160}),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace ebbtide::scheduler
