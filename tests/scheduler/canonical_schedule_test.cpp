#include "planners/lower_sets/canonical_schedule.hpp"

#include <gtest/gtest.h>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "planners/lower_sets/canonical_model.hpp"
#include "random_problems.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

// 0 -> 1 -> 2 and 0 -> 2.
const LowerSetProblem kTriangle{{1, 2, 3}, {10, 20, 30}, {{1, 2}, {2}, {}}};

TEST(CanonicalModel, IsTheGraphOfFormulaTwo) {
  const Graph graph = canonicalGraph(kTriangle);
  EXPECT_NO_THROW(checkGraph(graph));
  ASSERT_EQ(graph.ops.size(), 6u);
  // Backward of 2 is op 3, of 1 op 4, of 0 op 5; gradients are values 3, 4, 5.
  EXPECT_EQ(graph.ops[3].inputs, (std::vector<ValueId>{2}));  // no successor: its own value
  // Successor 2 reads 0 and 1; its gradient is 3.
  EXPECT_EQ(graph.ops[4].inputs, (std::vector<ValueId>{0, 1, 3}));
  // Successors 1 and 2 read 0, and 0 and 1.
  EXPECT_EQ(graph.ops[5].inputs, (std::vector<ValueId>{0, 1, 3, 4}));
  EXPECT_EQ(graph.values[4].bytes, 20);
}

TEST(CanonicalModel, IsRecognised) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const LowerSetProblem problem = randomProblem(seed, 1 + seed);
    const auto found = canonicalProblem(canonicalGraph(problem));
    ASSERT_TRUE(found) << seed;
    EXPECT_EQ(found->time, problem.time);
    EXPECT_EQ(found->memory, problem.memory);
    EXPECT_EQ(found->next, problem.next);
  }
}

TEST(CanonicalModel, IsNotSeenInOtherGraphs) {
  EXPECT_FALSE(canonicalProblem(Graph{}));
  EXPECT_FALSE(canonicalProblem(chain(3)));
  Graph graph = canonicalGraph(kTriangle);
  graph.ops[5].inputs.pop_back();
  EXPECT_FALSE(canonicalProblem(graph));
  graph = canonicalGraph(kTriangle);
  graph.values[5].bytes = 11;
  EXPECT_FALSE(canonicalProblem(graph));
  graph = canonicalGraph(kTriangle);
  graph.any_order = false;
  EXPECT_FALSE(canonicalProblem(graph));
}

TEST(CanonicalSchedule, ByHand) {
  // {0}, V of the triangle: 0 is cached; V_2 = {1, 2} stays for its backward.
  const LowerSetPlan plan{
      .feasible = true, .cached = {true, false, false}, .segment = {0, 1, 1}, .segments = 2};
  const Graph graph = canonicalGraph(kTriangle);
  const Schedule late = canonicalSchedule(graph, plan, DropTime::kSegmentEnd);
  // Backward of V_2: values 0, 1, 2 and gradients 3, 4; then 2 goes (1 and 3 are read by the
  // backward of 0, as is 4): 10 + 2 (20 + 30) = 110 before, 10 + 20 + 30 + 20 + 10 = 90 after.
  EXPECT_EQ(late.steps, (std::vector<Step>{run(0), run(1), run(2), run(3), run(4), drop(2), run(5),
                                           drop(0), drop(1), drop(3), drop(4), drop(5)}));
  EXPECT_EQ(simulate(graph, late).peak_bytes, 110);
  // Value 2 goes with its reader, the backward of 2: 10 + 20 + 30 + 30 there, and
  // 10 + 20 + 30 + 20 + 10 at the end.
  const Schedule early = canonicalSchedule(graph, plan, DropTime::kAfterReader);
  EXPECT_EQ(simulate(graph, early).peak_bytes, 90);
}

// Formulas (1) and (2). The last segment's values stay, so their times do not count.
TEST(CanonicalSchedule, CostsWhatTheFormulasSay) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const LowerSetProblem problem = randomProblem(seed, 1 + seed % 40, 1 + seed % 3);
    const Graph graph = canonicalGraph(problem);
    const LowerSetSolver solver(problem);
    for (const double factor : {1.0, 1.3, 2.0}) {
      const auto budget =
          static_cast<std::int64_t>(static_cast<double>(solver.smallestBudget()) * factor);
      for (const LowerSetGoal goal : {LowerSetGoal::kLeastTime, LowerSetGoal::kMostTime}) {
        const LowerSetPlan plan = solver.solve(budget, goal);
        ASSERT_TRUE(plan.feasible);
        std::int64_t last = 0;
        for (std::size_t v = 0; v < plan.segment.size(); ++v) {
          last += plan.segment[v] + 1 == plan.segments ? problem.time[v] : 0;
        }
        const Schedule late = canonicalSchedule(graph, plan, DropTime::kSegmentEnd);
        ASSERT_EQ(validate(graph, late).value_or(""), "") << seed;
        EXPECT_EQ(simulate(graph, late).peak_bytes, plan.peak) << seed;
        EXPECT_EQ(simulate(graph, late).recompute_ns, plan.time - last) << seed;
        const Schedule early = canonicalSchedule(graph, plan, DropTime::kAfterReader);
        ASSERT_EQ(validate(graph, early).value_or(""), "") << seed;
        EXPECT_LE(simulate(graph, early).peak_bytes, plan.peak) << seed;
        EXPECT_EQ(simulate(graph, early).recompute_ns, plan.time - last) << seed;
      }
    }
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
