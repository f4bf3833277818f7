// chen, dtr and greedy-remat: numbers on graphs small enough to follow, and legality everywhere.
#include <gtest/gtest.h>

#include <cmath>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "honest_plan.hpp"
#include "planners/baselines/chen_planner.hpp"
#include "planners/baselines/dtr_planner.hpp"
#include "planners/baselines/greedy_remat_planner.hpp"
#include "random_graphs.hpp"
#include "random_orders.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

std::vector<OpId> chenCuts(const Graph& graph, std::size_t segments) {
  const RetentionSearch search(graph, 0, {});
  EXPECT_EQ(search.phases().size(), 1U);
  return ChenSegments(graph, search, search.phases()[0]).cuts(segments);
}

// Nine values of 10 bytes: three segments of 30.
TEST(Chen, CutsAChainIntoEqualSegments) {
  EXPECT_EQ(chenCuts(chain(9), 3), (std::vector<OpId>{2, 5}));
  EXPECT_EQ(chenCuts(chain(9), 1), (std::vector<OpId>{}));
}

// Memory of the order of the square root: sqrt(n) cuts kept and a segment of sqrt(n) recomputed.
TEST(Chen, TakesRootMemoryOnAChain) {
  for (int n : {16, 100, 400}) {
    const Graph graph = chain(n);
    const PlanResult result = planner("chen").plan(graph, 0, {});
    const double root = std::sqrt(static_cast<double>(n));
    EXPECT_LE(static_cast<double>(result.peak_bytes), 10 * (2 * root + 2)) << n;
    EXPECT_LE(result.recompute_ns, n) << n;  // one forward pass
  }
}

// Figure 2 of kusumoto2019: where the input is read by the last op too, nothing but the first and
// the last op cuts the graph, and these leave one segment.
TEST(Chen, FindsNoCutUnderASkipConnection) {
  Graph graph;
  const ValueId x = addGraphInput(graph, 10);
  const ValueId first = addForward(graph, {x}, 10, 1);
  ValueId last = first;
  for (int i = 0; i < 6; ++i) last = addForward(graph, {last}, 10, 1);
  last = addForward(graph, {last, first}, 10, 1);
  for (ValueId value = last; value > x; --value) addEvent(graph, {value});
  EXPECT_EQ(chenCuts(graph, 3), (std::vector<OpId>{}));
}

// Four values of 10 bytes and 1 ns, limit 30. Forward: v4 does not fit; v1, v2 cost 1 each, v3 is
// its input; v1, read last at time 2, is as stale as can be: at time 3 h(v1) = 2/10/(3-2+1), v2 was
// read at 3: h(v2) = 2/10/1. v1 goes. Events read v4, v3, v2, all there; v1 is made again for the
// last one.
TEST(Dtr, EvictsTheStaleValue) {
  const Graph graph = chain(4);
  const Schedule schedule = runWithEviction(graph, 30, {1000});
  EXPECT_EQ(validate(graph, schedule).value_or(""), "");
  const Simulation simulation = simulate(graph, schedule);
  EXPECT_EQ(simulation.peak_bytes, 30);
  EXPECT_EQ(simulation.recompute_ns, 1);
}

// The cheapest per byte goes first: of two values equally stale the one of 1 ns, not of 50.
TEST(Dtr, EvictsTheCheapValue) {
  Graph graph;
  const ValueId x = addGraphInput(graph, 0, true);
  const ValueId dear = addForward(graph, {x}, 10, 50);
  const ValueId cheap = addForward(graph, {x}, 10, 1);
  const ValueId sum = addForward(graph, {dear, cheap}, 10, 1);
  const ValueId top = addForward(graph, {sum}, 10, 1);
  addEvent(graph, {top});
  addEvent(graph, {sum});
  addEvent(graph, {dear, cheap});
  const Simulation simulation = simulate(graph, runWithEviction(graph, 30, {1000}));
  EXPECT_EQ(simulation.peak_bytes, 30);
  EXPECT_EQ(simulation.recompute_ns, 1);
}

// At op 3 values of 40, 10 and 10 bytes that events read and 10 more are over 60. Of the first two
// the larger one frees more, and its one replay is all it takes. Nothing reads it before, so the
// schedule drops it at once: after op 0 there are at most 30 bytes, until it is made again.
TEST(GreedyRemat, FreesTheLargestFirst) {
  Graph graph;
  const ValueId x = addGraphInput(graph, 0, true);
  const ValueId large = addForward(graph, {x}, 40, 5);
  const ValueId small = addForward(graph, {x}, 10, 5);
  const ValueId next = addForward(graph, {small}, 10, 1);
  const ValueId last = addForward(graph, {next}, 10, 1);
  for (ValueId value : {last, next, small, large}) addEvent(graph, {value});
  const Schedule schedule = rematerializeGreedily(graph, 60, {1000});
  EXPECT_EQ(validate(graph, schedule).value_or(""), "");
  EXPECT_EQ(simulate(graph, schedule).peak_bytes, 40);
  EXPECT_EQ(simulate(graph, schedule).recompute_ns, 5);
}

// An input that is live no more counts against the value: nothing is gained on a chain whose
// values are alike but by every other one, so the peak stays linear, as in kumar2019, section 4.1.
TEST(GreedyRemat, HalvesAChainAtMost) {
  for (int n : {20, 100, 400}) {
    const PlanResult result = planner("greedy-remat").plan(chain(n), 0, {});
    EXPECT_GE(result.peak_bytes, 10 * n / 2) << n;
    EXPECT_LE(result.peak_bytes, 10 * (n / 2 + 2)) << n;
  }
}

TEST(Baselines, AreLegalUnderAnyLimit) {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    const Graph graph =
        seed % 2 == 0 ? randomGraph(seed, 2 + seed % 30) : randomOrderGraph(seed, 2 + seed % 40);
    const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
    for (Bytes limit : {Bytes{0}, peak / 2, peak * 3 / 4, peak}) {
      EXPECT_EQ(validate(graph, runWithEviction(graph, limit, {2000})).value_or(""), "") << seed;
      EXPECT_EQ(validate(graph, rematerializeGreedily(graph, limit, {2000})).value_or(""), "")
          << seed;
    }
  }
}

// The papers' models: the same promises as the contract makes for recorded programs.
TEST(PaperModels, AreHonoured) {
  for (const char* name : {"chen", "dtr", "greedy-remat", "twremat", "twremat-k", "pwremat"}) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Graph graph = randomOrderGraph(seed, 1 + seed);
      graph.lazy_outputs = seed % 3 == 0;
      const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
      for (Bytes budget : {Bytes{0}, peak * 2 / 3, peak}) {
        SCOPED_TRACE(testing::Message() << name << " " << seed);
        const PlanResult result = planner(name).plan(graph, budget, {});
        expectHonest(graph, budget, result);
        if (budget == peak) {
          EXPECT_EQ(result.recompute_ns, 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
