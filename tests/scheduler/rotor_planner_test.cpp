// The planners of rotor2024 on the paper's instances, and against all sequences of tiny chains.
#include <gtest/gtest.h>

#include <numeric>

#include "chain_brute_force.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "honest_plan.hpp"
#include "small_chains.hpp"

namespace ebbtide::scheduler {
namespace {

struct Outcome {
  bool feasible;
  Nanoseconds makespan;
  Bytes peak;
};

Outcome plan(const std::string& name, const Graph& graph, Bytes budget,
             const PlannerOptions& options = {}) {
  const PlanResult result = planner(name).plan(graph, budget, options);
  expectHonest(graph, budget, result);
  return {result.feasible, simulate(graph, result.schedule).duration_ns, result.peak_bytes};
}

// Section 3.2: 47.4 ms within 90 MB, at a peak of 86.8 MB; 37.4 ms and 107 MB without a limit.
// F¹ F² F³ run again for B³, F¹ F² for B²: 37.38 + 6.24 + 3.80 = 47.42. At B⁵ there are a⁰, a³, ā⁴,
// ā⁵, δ⁴, δ⁵ and the workspace: 7.63 + 11.06 + 10.68 + 9.54 + 10.68 + 9.54 + 27.64 = 86.77.
TEST(RotorPlanner, FindsTheToyChainsSequence) {
  const Graph graph = chainGraph(toyChain(), CostModel::kPaper);
  for (const char* name : {"rotor-persistent", "rotor-floating"}) {
    const Outcome limited = plan(name, graph, 9000);
    EXPECT_TRUE(limited.feasible);
    EXPECT_EQ(limited.makespan, 4742);
    EXPECT_EQ(limited.peak, 8677);
    const Outcome unlimited = plan(name, graph, 20000);
    EXPECT_EQ(unlimited.makespan, 3738);
    EXPECT_EQ(unlimited.peak, 10701);
  }
}

// Section 4.1: at M = 15 and k = n - 2 the best persistent makespan is 3n - 2, the best one 2n + 2.
TEST(RotorPlanner, FloatsWhereNothingPersistentIsOptimal) {
  for (std::size_t n = 5; n <= 40; n += n < 10 ? 1 : 10) {
    SCOPED_TRACE(n);
    const Graph graph = chainGraph(figureFourChain(n), CostModel::kPaper);
    const Nanoseconds size = static_cast<Nanoseconds>(n);
    EXPECT_EQ(plan("rotor-persistent", graph, 15).makespan, 3 * size - 2);
    EXPECT_EQ(plan("rotor-floating", graph, 15).makespan, 2 * size + 2);
  }
}

// Theorem 3.6: what is dropped must free V bytes, and it costs as many nanoseconds as it has bytes;
// so, with no number above V, the least recompute time is the least sum of a subset that is at
// least V: V itself if the numbers can be parted evenly.
TEST(RotorPlanner, SolvesPartition) {
  const std::vector<std::vector<std::int64_t>> sets = {
      {1, 1}, {1, 1, 2}, {3, 3, 3, 1}, {3, 1, 1, 2, 2, 1}, {2, 2, 2, 4}, {5, 3, 3, 3, 4}};
  for (const auto& numbers : sets) {
    const std::int64_t half = std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0}) / 2;
    std::int64_t least = 2 * half;
    for (unsigned subset = 0; subset < 1u << numbers.size(); ++subset) {
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < numbers.size(); ++i) sum += (subset >> i & 1) ? numbers[i] : 0;
      if (sum >= half) least = std::min(least, sum);
    }
    const Graph graph = chainGraph(partitionChain(numbers), CostModel::kPaper);
    const Outcome outcome = plan("rotor-floating", graph, 3 * half);
    EXPECT_TRUE(outcome.feasible);
    EXPECT_EQ(outcome.makespan, 3 * half + least);
  }
}

TEST(RotorPlanner, AgreesWithBruteForce) {
  int feasible = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Chain chain = randomChain(seed, 2 + seed % 4, 6);
    const Graph graph = chainGraph(chain, CostModel::kPaper);
    const Bytes all = simulate(graph, keepEverything(graph)).peak_bytes;
    for (Bytes budget = all * 2 / 5; budget <= all; budget += 1 + all / 24) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " budget " << budget);
      const auto persistent = ChainBruteForce(chain, budget, true).leastMakespan();
      const auto any = ChainBruteForce(chain, budget, false).leastMakespan();
      const Outcome rotor = plan("rotor-persistent", graph, budget);
      const Outcome floating = plan("rotor-floating", graph, budget);
      EXPECT_EQ(rotor.feasible, persistent.has_value());
      if (persistent) {
        EXPECT_EQ(rotor.makespan, *persistent);
      }
      if (any) {
        EXPECT_EQ(floating.makespan, *any);
      }
      EXPECT_EQ(floating.feasible, any.has_value());
      feasible += persistent.has_value() ? 1 : 0;
    }
  }
  EXPECT_GT(feasible, 100);
}

TEST(RotorPlanner, MoreMemoryNeverCostsMore) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const Graph graph = chainGraph(randomChain(seed, 25, 1 << 20), CostModel::kReal);
    const Bytes all = simulate(graph, keepEverything(graph)).peak_bytes;
    const Outcome least = plan("rotor-persistent", graph, 0);
    EXPECT_FALSE(least.feasible);
    Nanoseconds before = std::numeric_limits<Nanoseconds>::max();
    for (Bytes budget = least.peak; budget <= all; budget += (all - least.peak) / 7) {
      const Outcome outcome = plan("rotor-persistent", graph, budget);
      EXPECT_TRUE(outcome.feasible);
      EXPECT_LE(outcome.makespan, before);
      before = outcome.makespan;
    }
  }
}

// Rounding to the nearest slot uses the budget that rounding up leaves.
TEST(RotorPlanner, NearestIsNoWorseThanUp) {
  PlannerOptions up, nearest;
  up.named = {{"slots", "60"}, {"rounding", "up"}};
  nearest.named = {{"slots", "60"}};
  Nanoseconds up_ns = 0, nearest_ns = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Graph graph = chainGraph(randomChain(seed, 40, 1 << 20), CostModel::kPaper);
    const Bytes budget = simulate(graph, keepEverything(graph)).peak_bytes / 2;
    up_ns += plan("rotor-persistent", graph, budget, up).makespan;
    nearest_ns += plan("rotor-persistent", graph, budget, nearest).makespan;
  }
  EXPECT_LT(nearest_ns, up_ns);
}

// Eight equal stages and the loss. Least recomputation with c inputs kept, the first one among
// them, is the binomial formula's; every stage but the loss is run once more to save.
TEST(RevolvePlanner, IsBinomialOnEqualStages) {
  const std::size_t stages = 9;
  std::vector<Nanoseconds> forward(stages, 1);
  const Graph graph =
      chainGraph(plainChain(std::vector<Bytes>(stages, 10), forward), CostModel::kPaper);
  // F runs with a⁰, c - 1 more inputs, its own input, its output and δ; B with a⁰, c - 1 more,
  // the stage's input, a, δ, δ. So c = 3 fits 10 · (1 + 2 + 4) = 70 at most.
  // r = 2: β(3, 2) = 10 >= 9, so 2 · 9 - β(4, 1) = 13 stages run on the way. The first 8 are
  // the forward pass; 8 more run to save.
  const Outcome outcome = plan("revolve", graph, 70);
  EXPECT_TRUE(outcome.feasible);
  EXPECT_LE(outcome.makespan, 9 + 5 + 8);
  EXPECT_LE(plan("rotor-persistent", graph, 70).makespan, outcome.makespan);
}

// Nine stages in three segments: the first two run again.
TEST(PeriodicPlanner, RunsAllSegmentsButTheLastAgain) {
  const Graph graph = chainGraph(
      plainChain(std::vector<Bytes>(9, 10), std::vector<Nanoseconds>(9, 1)), CostModel::kPaper);
  // Two segments, of 4 and 5 stages: while the second is saved, a⁰, a⁴, ā⁵ … ā⁸ and δ⁸, δ⁷: 80;
  // then in the first at B⁴ a⁰, ā¹ … ā⁴, δ⁴, δ³: 70. So F¹ … F⁴ run again.
  const Outcome two = plan("periodic", graph, 80);
  EXPECT_TRUE(two.feasible);
  EXPECT_EQ(two.makespan, 9 + 4);
  // Three segments of 3: a⁰, a³, a⁶, ā⁷, ā⁸, δ⁸, δ⁷: 70. F¹ … F⁶ run again.
  EXPECT_EQ(plan("periodic", graph, 79).makespan, 9 + 6);
}

}  // namespace
}  // namespace ebbtide::scheduler
