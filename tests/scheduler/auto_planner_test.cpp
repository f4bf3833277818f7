#include "auto_planner.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/simulator.hpp"
#include "gpt_graph.hpp"
#include "random_graphs.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

PlannerOptions withWork(const std::string& work) {
  PlannerOptions options;
  options.named["work"] = work;
  return options;
}

PlannerOptions memoryCentric() {
  PlannerOptions options;
  options.named["strategy"] = "memory";
  return options;
}

TEST(AutoPlanner, MoreMemoryNeverCostsMoreOnTheLadder) {
  const PlannerOptions options = withWork("10000");
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Graph graph = randomGraph(seed, 5 + seed % 25);
    const Bytes bound = peakLowerBound(graph);
    const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
    PlanResult before;
    for (Bytes step = 0; step <= AutoPlanner::kLadderSteps; ++step) {
      const Bytes budget = AutoPlanner::ladderBudget(bound, peak, step);
      const PlanResult result = planner("auto").plan(graph, budget, options);
      if (before.feasible) {
        EXPECT_TRUE(result.feasible) << seed << " step " << step;
        EXPECT_LE(result.recompute_ns, before.recompute_ns) << seed << " step " << step;
      }
      before = result;
    }
  }
}

// Little work, so that the searches end far from the optimum and a smaller share would show.
TEST(AutoPlanner, IsNoWorseThanTheOthers) {
  const std::vector<std::pair<std::string, PlannerOptions>> others = {
      {"greedy", withWork("30000")}, {"kusumoto-approx", {}}, {"kusumoto-approx", memoryCentric()}};
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = randomGraph(seed, 25);
    const Bytes budget =
        (peakLowerBound(graph) + simulate(graph, keepEverything(graph)).peak_bytes) / 2;
    const PlanResult best = planner("auto").plan(graph, budget, withWork("30000"));
    for (const auto& [other, options] : others) {
      const PlanResult result = planner(other).plan(graph, budget, options);
      if (!result.feasible) continue;
      EXPECT_TRUE(best.feasible) << seed << " " << other;
      EXPECT_LE(best.recompute_ns, result.recompute_ns) << seed << " " << other;
    }
  }
}

TEST(AutoPlanner, NamesTheWinner) {
  const Graph graph = chain(10);  // keeping everything takes 100 bytes
  EXPECT_EQ(planner("auto").plan(graph, 100, {}).planner, "keep-everything");
  EXPECT_NE(planner("auto").plan(graph, 60, {}).planner, "keep-everything");
}

TEST(AutoPlanner, FindsTheOptimumOfAChain) {
  // chain(4), 40 bytes when all is kept at op 3 and event 4. With 30 bytes: drop value 1 (or 2),
  // which is gone when op 3 runs, and make it again when values 4 and 3 are gone: one replay of 1
  // ns.
  const PlanResult result = planner("auto").plan(chain(4), 30, {});
  EXPECT_TRUE(result.feasible);
  EXPECT_EQ(result.recompute_ns, 1);
}

// Half of the activations: what is cheap per byte (normalisations, GELU, dropout, softmax) suffices
// but for some products. The published planner replays whole segments, in which all products lie.
// Without fusion the softmax alone is a third of the bytes and little of the time: then each value
// dropped costs little more than its own op, as in the bound.
TEST(AutoPlanner, HalvesTheActivationsOfATransformerCheaply) {
  for (bool fused : {false, true}) {
    const Graph graph = gptGraph({.layers = 12, .fused_attention = fused});
    const Bytes fixed = graph.ops[0].fixed_bytes;
    const Bytes budget = fixed + (simulate(graph, keepEverything(graph)).peak_bytes - fixed) / 2;
    const PlanResult result = planner("auto").plan(graph, budget, withWork("2000000"));
    const PlanResult segments = planner("kusumoto-approx").plan(graph, budget, {});
    EXPECT_TRUE(result.feasible);
    EXPECT_LE(result.recompute_ns, segments.recompute_ns / 5 * 4) << fused;
    if (!fused) {
      EXPECT_LE(result.recompute_ns, recomputeLowerBound(graph, budget) / 10 * 11);
    }
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
