#include "planners/auto/auto_planner.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "gpt_graph.hpp"
#include "layered_graph.hpp"
#include "planners/chain/chain_join.hpp"
#include "random_graphs.hpp"
#include "schedule_brute_force.hpp"
#include "search/replay_search.hpp"
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
  for (std::uint64_t seed = 0; seed < 15; ++seed) {
    const Graph graph = randomGraph(seed, 5 + 5 * (seed % 5));
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

// Ops 0 and 1 make 10 bytes each, ops 2 and 3 read these. In the order 0 2 1 3 one value at a time
// is live; in the graph's own order only a replay gets there.
TEST(AutoPlanner, ReordersFirstRunsWhereAnyOrderIsAllowed) {
  Graph graph;
  graph.any_order = true;
  for (std::int32_t id = 0; id < 4; ++id) {
    graph.values.push_back({.bytes = id < 2 ? 10 : 0, .producer = id});
    graph.ops.push_back({.name = "n", .duration_ns = 1, .rerunnable = true, .outputs = {id}});
    if (id >= 2) graph.ops.back().inputs = {id - 2};
  }
  const PlanResult result = planner("auto").plan(graph, 10, withWork("10000"));
  EXPECT_TRUE(result.feasible);
  EXPECT_EQ(result.recompute_ns, 0);
  EXPECT_TRUE(result.optimal);
}

// Little work, so that the searches end far from the optimum and a smaller share would show.
TEST(AutoPlanner, IsNoWorseThanTheOthers) {
  const std::vector<std::pair<std::string, PlannerOptions>> others = {
      {"greedy", withWork("30000")}, {"kusumoto-approx", {}}, {"kusumoto-approx", memoryCentric()}};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
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

// Two microbatches whose graphs are kept and run backward once more at the end. The first is the
// larger one: what is dropped at its peak is needed again after the second one's forward pass.
Graph accumulatingStep() {
  Graph graph;
  std::vector<ValueId> kept;
  for (int batch = 0; batch < 2; ++batch) {
    std::vector<ValueId> chain = {addGraphInput(graph, 10)};
    for (int i = 0; i < 8; ++i)
      chain.push_back(addForward(graph, {chain.back()}, batch == 0 ? 30 : 2, 5 + i));
    for (std::size_t i = chain.size(); i-- > 2;) addEvent(graph, {chain[i]});
    kept.insert(kept.end(), chain.begin() + 1, chain.end());
  }
  for (std::size_t i = kept.size(); i-- > 0;) addEvent(graph, {kept[i]});
  return graph;
}

// The program's forward pass is not ours to stop: nothing can run again there.
TEST(AutoPlanner, ReplaysForBackwardOpsAlone) {
  const Graph graph = accumulatingStep();
  const Bytes bound = peakLowerBound(graph);
  const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    ReplaySearch search(graph, {.budget_bytes = (bound + peak) / 2, .seed = seed});
    search.construct();
    search.anneal(500, 0.3);
    const Schedule schedule = search.schedule();
    EXPECT_EQ(validate(graph, schedule).value_or(""), "") << seed;
    EXPECT_GT(simulate(graph, schedule).recompute_ns, 0) << seed;
  }
}

TEST(AutoPlanner, IsNoWorseThanTheJoinedBlocks) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph = randomGraph(seed, 40);
    const Bytes bound = peakLowerBound(graph);
    const Bytes budget = (bound + simulate(graph, keepEverything(graph)).peak_bytes) / 2;
    const PlanResult best = planner("auto").plan(graph, budget, withWork("10000"));
    const PlanResult joined = joinBlocks(graph, budget, {});
    if (!joined.feasible) continue;
    EXPECT_TRUE(best.feasible) << seed;
    EXPECT_LE(best.recompute_ns, joined.recompute_ns) << seed;
  }
}

// Tiny steps against all schedules: never below the optimum nor below the bound that comes along,
// and what is called optimal is. More memory costs no more at each budget here.
TEST(AutoPlanner, AgreesWithBruteForce) {
  int found = 0, feasible = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const Graph graph = tinyStep(seed, 2 + static_cast<int>(seed % 5));
    const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
    Nanoseconds before = std::numeric_limits<Nanoseconds>::max();
    const Bytes bound = peakLowerBound(graph);
    for (Bytes budget = bound; budget < peak; budget += 1 + (peak - bound) / 6) {
      const auto least = ScheduleBruteForce(graph, budget).leastReplayTime();
      const PlanResult result = planner("auto").plan(graph, budget, withWork("10000"));
      if (!least) {
        EXPECT_FALSE(result.feasible) << seed << " budget " << budget;
        continue;
      }
      ++feasible;
      EXPECT_LE(result.recompute_bound_ns, *least) << seed << " budget " << budget;
      if (!result.feasible) continue;
      EXPECT_GE(result.recompute_ns, *least) << seed << " budget " << budget;
      EXPECT_LE(result.recompute_ns, before) << seed << " budget " << budget;
      if (result.optimal) {
        EXPECT_EQ(result.recompute_ns, *least) << seed << " budget " << budget;
      }
      found += result.recompute_ns == *least ? 1 : 0;
      before = result.recompute_ns;
    }
  }
  EXPECT_GE(found, feasible * 98 / 100) << "of " << feasible;
}

// Paper-model graphs have no events to keep values for: moccasin-local plans them, and auto's moves
// are its work over 100.
TEST(AutoPlanner, PlansGraphsInAnyOrder) {
  LayeredSpec spec;
  spec.nodes = 60;
  const Graph graph = LayeredGraph(spec, 1).take();
  const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
  const Bytes budget = peak * 9 / 10;
  const PlanResult result = planner("auto").plan(graph, budget, withWork("3000000"));
  const PlanResult local = planner("moccasin-local").plan(graph, budget, withWork("30000"));
  EXPECT_TRUE(result.feasible);
  EXPECT_EQ(result.recompute_ns, local.recompute_ns);
}

TEST(AutoPlanner, SaysTheSameTwiceOnTwoThreads) {
  PlannerOptions options = withWork("1000000");
  options.threads = 2;
  options.seed = 7;
  const Graph graph = gptGraph({.layers = 3});
  const Bytes fixed = graph.ops[0].fixed_bytes;
  const Bytes budget = fixed + (simulate(graph, keepEverything(graph)).peak_bytes - fixed) / 3;
  EXPECT_EQ(planner("auto").plan(graph, budget, options).schedule.steps,
            planner("auto").plan(graph, budget, options).schedule.steps);
}

// More layers, the same answer: within 1 % of the step's time of what no schedule can beat.
TEST(AutoPlanner, NearsTheBoundOnADeepTransformer) {
  const Graph graph = gptGraph({.layers = 40});
  const Bytes fixed = graph.ops[0].fixed_bytes;
  const Bytes budget = fixed + (simulate(graph, keepEverything(graph)).peak_bytes - fixed) / 2;
  const PlanResult result = planner("auto").plan(graph, budget, withWork("1000000"));
  EXPECT_TRUE(result.feasible);
  EXPECT_LE(result.recompute_ns - result.recompute_bound_ns, graph.totalDurationNs() / 100);
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
