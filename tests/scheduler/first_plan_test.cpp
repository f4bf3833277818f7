// Plans that are found at once, without a search.
#include "planners/auto/first_plan.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/step_search.hpp"
#include "honest_plan.hpp"
#include "random_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

Trace gptStep() {
  std::ifstream file(std::string(EBBTIDE_TEST_DATA) + "/gpt_step.json");
  return traceFromJson({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
}

// The peak of keeping everything, less so many hundredths of what lies above the lower bound.
Bytes budgetOf(const Graph& graph, Bytes hundredths) {
  const Bytes plain = simulate(graph, keepEverything(graph)).peak_bytes;
  return plain - (plain - peakLowerBound(graph)) * hundredths / 100;
}

TEST(FirstPlan, OfARecordedStepFitsAndIsTheSameEachTime) {
  const Graph graph = buildGraph(gptStep()).graph;
  for (const Bytes hundredths : {20, 50, 80}) {
    const Bytes budget = budgetOf(graph, hundredths);
    const PlanResult plan = firstPlan(graph, budget, {});
    expectHonest(graph, budget, plan);
    EXPECT_TRUE(plan.feasible) << hundredths;
    EXPECT_GT(plan.recompute_ns, 0);
    EXPECT_EQ(firstPlan(graph, budget, {}).schedule.steps, plan.schedule.steps);
  }
}

TEST(FirstPlan, OfRandomGraphsIsHonest) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Graph graph = RandomGraph(seed, 12).take();
    const Bytes budget = budgetOf(graph, 60);
    expectHonest(graph, budget, firstPlan(graph, budget, {}));
  }
}

TEST(FirstPlan, KeepsEverythingWhereThatFits) {
  const Graph graph = buildGraph(gptStep()).graph;
  const PlanResult plan = firstPlan(graph, budgetOf(graph, 0), {});
  EXPECT_TRUE(plan.feasible);
  EXPECT_EQ(plan.recompute_ns, 0);
}

TEST(FirstPlan, OfAnImpossibleBudgetIsLegalAllTheSame) {
  const Graph graph = buildGraph(gptStep()).graph;
  const Bytes budget = peakLowerBound(graph) - 1;
  const PlanResult plan = firstPlan(graph, budget, {});
  expectHonest(graph, budget, plan);
  EXPECT_FALSE(plan.feasible);
}

class FirstOfASearch : public testing::Test {
 protected:
  // Work alone ends it: no machine is too slow.
  std::optional<PlannedStep> first(StepSearch::Options options, Bytes hundredths) const {
    options.work = 1;
    return StepSearch(options, nullptr).first(trace_, plain_, budgetOf(plain_.graph, hundredths));
  }

  const Trace trace_ = gptStep();
  const TraceGraph plain_ = buildGraph(trace_);
};

TEST_F(FirstOfASearch, FitsAndIsSimulated) {
  const auto found = first({}, 50);
  ASSERT_TRUE(found);
  expectHonest(found->step.graph, budgetOf(plain_.graph, 50), found->result);
  EXPECT_TRUE(found->result.feasible);
  EXPECT_EQ(found->simulated.recompute_ns, found->result.recompute_ns);
}

// Below the lower bound, and nothing may be written to the host.
TEST_F(FirstOfASearch, ThatDoesNotFitIsNone) {
  EXPECT_FALSE(first({}, 101));
}

TEST_F(FirstOfASearch, IsNoneWhereAnotherPlannerWasAsked) {
  EXPECT_FALSE(first({.planner = "greedy"}, 50));
}

TEST_F(FirstOfASearch, IsNoneOnceNobodyWaits) {
  const std::atomic<bool> cancelled = true;
  EXPECT_FALSE(first({.cancelled = &cancelled}, 50));
}

TEST_F(FirstOfASearch, IsNoneWhereNoTimeIsLeft) {
  const StepSearch search({.planning_time = std::chrono::milliseconds(0)}, nullptr);
  EXPECT_FALSE(search.first(trace_, plain_, budgetOf(plain_.graph, 50)));
}

// The same call with work set: it has no deadline.
TEST_F(FirstOfASearch, IsFoundWhereNoTimeIsLeftButWorkIsSet) {
  const StepSearch search({.planning_time = std::chrono::milliseconds(0), .work = 1}, nullptr);
  const auto found = search.first(trace_, plain_, budgetOf(plain_.graph, 50));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->result.feasible);
}

// Replays take a share of a step of 2.4 s, and far more than 0.6 of one of a millisecond.
TEST_F(FirstOfASearch, IsNoneThatMakesAStepMuchLonger) {
  const auto found = first({}, 50);
  ASSERT_TRUE(found);
  Trace quick = trace_;
  quick.duration_ns = 1'000'000;
  ASSERT_GT(found->simulated.recompute_ns, 600'000);
  const Bytes budget = budgetOf(plain_.graph, 50);
  EXPECT_FALSE(StepSearch({.work = 1}, nullptr).first(quick, plain_, budget));
  EXPECT_FALSE(StepSearch::again(quick, plain_, budget, *found));
}

// In a step whose ops all take twice as long, the same replays take twice as long.
TEST_F(FirstOfASearch, HasTheFiguresOfALaterStep) {
  const auto found = first({}, 50);
  ASSERT_TRUE(found);
  Trace later = trace_;
  for (auto& op : later.ops) op.duration_ns *= 2;
  const TraceGraph plain = buildGraph(later);
  const auto again = StepSearch::again(later, plain, budgetOf(plain_.graph, 50), *found);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->result.schedule.steps, found->result.schedule.steps);
  EXPECT_EQ(again->simulated.peak_bytes, found->simulated.peak_bytes);
  EXPECT_EQ(again->simulated.recompute_ns, 2 * found->simulated.recompute_ns);
  expectHonest(again->step.graph, budgetOf(plain_.graph, 50), again->result);
}

// So many bytes more are there all the time: the plan takes as many more.
TEST_F(FirstOfASearch, IsNoPlanOfALaterStepThatItDoesNotFit) {
  const auto found = first({}, 50);
  ASSERT_TRUE(found);
  Trace later = trace_;
  later.base_bytes += budgetOf(plain_.graph, 50) - found->simulated.peak_bytes + 1;
  EXPECT_FALSE(StepSearch::again(later, buildGraph(later), budgetOf(plain_.graph, 50), *found));
  later.base_bytes -= 1;
  EXPECT_TRUE(StepSearch::again(later, buildGraph(later), budgetOf(plain_.graph, 50), *found));
}

}  // namespace
}  // namespace ebbtide::scheduler
