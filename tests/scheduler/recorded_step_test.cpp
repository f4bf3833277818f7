// Planners on recorded steps: a GPT of 3 layers with 2 microbatches a step, a residual CNN of 4
// blocks. Unlike the made graphs these have dropout masks without a forward input, in-place chains,
// graph inputs, gaps and two forward phases.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iterator>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "honest_plan.hpp"

namespace ebbtide::scheduler {
namespace {

TraceGraph recordedStep(const std::string& name) {
  const std::string path = std::string(EBBTIDE_TEST_DATA) + "/" + name + ".json";
  std::ifstream file(path);
  if (!file) throw std::runtime_error("no " + path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return buildGraph(traceFromJson(text));
}

// What keeping everything takes, less half of the activations.
Bytes halfTheActivations(const TraceGraph& step) {
  return simulate(step.graph, keepEverything(step.graph)).peak_bytes - step.activation_bytes / 2;
}

// kusumoto-approx with strategy=memory.
constexpr const char* kMemoryCentric = "memory-centric";

const Planner& plannerOf(const std::string& name) {
  return planner(name == kMemoryCentric ? "kusumoto-approx" : name);
}

// A bounded search, for the planners that search.
PlannerOptions bounded(const std::string& planner_name) {
  PlannerOptions options;
  if (planner_name == "greedy" || planner_name == "auto") options.named["work"] = "1000000";
  if (planner_name == kMemoryCentric) options.named["strategy"] = "memory";
  return options;
}

// One more forward pass: every op that may be replayed, once.
Nanoseconds forwardPass(const Graph& graph) {
  Nanoseconds sum = 0;
  for (const Op& op : graph.ops) sum += op.rerunnable ? op.duration_ns : 0;
  return sum;
}

class RecordedStep
    : public testing::TestWithParam<std::tuple<const char*, const char*>> {  // step, planner
 protected:
  const char* step() const { return std::get<0>(GetParam()); }
  std::string plannerName() const { return std::get<1>(GetParam()); }
};

// All these programs' segments can be replayed in turn, each op once, at half of the activations:
// no planner needs more than a forward pass.
TEST_P(RecordedStep, HalvesTheActivations) {
  const TraceGraph step = recordedStep(this->step());
  const Bytes budget = halfTheActivations(step);
  ASSERT_GT(budget, peakLowerBound(step.graph));
  const PlanResult result =
      plannerOf(plannerName()).plan(step.graph, budget, bounded(plannerName()));
  expectHonest(step.graph, budget, result);
  if (plannerName() != kMemoryCentric) {
    EXPECT_TRUE(result.feasible);
  }
  EXPECT_LE(result.recompute_ns, forwardPass(step.graph));
  EXPECT_GE(result.recompute_ns, recomputeLowerBound(step.graph, result.peak_bytes));
}

// Wherever in its work the deadline meets it.
TEST_P(RecordedStep, IsLegalWhenADeadlineEndsIt) {
  const TraceGraph step = recordedStep(this->step());
  for (const int milliseconds : {1, 5, 30}) {
    PlannerOptions options = bounded(plannerName());
    options.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    const PlanResult result =
        plannerOf(plannerName()).plan(step.graph, halfTheActivations(step), options);
    EXPECT_EQ(validate(step.graph, result.schedule).value_or(""), "") << milliseconds;
  }
}

// Those that order runs themselves may take longer than a forward pass; legal they must be.
TEST(RecordedSteps, AreLegalWithManyReplays) {
  for (const char* name : {"chen", "dtr", "greedy-remat", "twremat", "twremat-k", "pwremat"}) {
    for (const char* file : {"gpt_step", "cnn_step"}) {
      const TraceGraph step = recordedStep(file);
      for (const Bytes budget : {Bytes{0}, halfTheActivations(step)}) {
        SCOPED_TRACE(testing::Message() << name << " " << file);
        const PlanResult result = planner(name).plan(step.graph, budget, {});
        expectHonest(step.graph, budget, result);
        // XLA's pass meets no small budget, but each frees something.
        EXPECT_LT(result.peak_bytes, simulate(step.graph, keepEverything(step.graph)).peak_bytes);
      }
    }
  }
}

std::string identifier(const testing::TestParamInfo<RecordedStep::ParamType>& param) {
  std::string name = std::string(std::get<0>(param.param)) + "_" + std::get<1>(param.param);
  for (char& letter : name) letter = letter == '-' ? '_' : letter;
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, RecordedStep,
                         testing::Combine(testing::Values("gpt_step", "cnn_step"),
                                          testing::Values("greedy", "kusumoto-approx",
                                                          kMemoryCentric, "kusumoto-exact",
                                                          "auto")),
                         identifier);

}  // namespace
}  // namespace ebbtide::scheduler
