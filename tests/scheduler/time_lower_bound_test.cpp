// The bounds on the time of replays that a relaxation gives.
#include "ebbtide/scheduler/time_lower_bound.hpp"

#include <gtest/gtest.h>

#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "judge/op_precedence.hpp"
#include "random_graphs.hpp"
#include "random_orders.hpp"
#include "schedule_brute_force.hpp"
#include "small_graphs.hpp"
#include "solver_test.hpp"
#include "unit_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

TEST(OpPrecedence, IsProgramOrderUnlessAnyOrderWillDo) {
  Graph graph = unitTree(3);  // leaves 0 to 3, then 4 = 0 + 1, 5 = 2 + 3, 6 = 4 + 5
  OpPrecedence free(graph);
  EXPECT_TRUE(free.before(0, 4) && free.before(0, 6) && free.before(5, 6));
  EXPECT_FALSE(free.before(0, 1) || free.before(0, 5) || free.before(6, 0) || free.before(4, 4));
  EXPECT_EQ(free.chain(), (std::vector<OpId>{0, 4, 6}));
  graph.any_order = false;
  OpPrecedence fixed(graph);
  EXPECT_TRUE(fixed.before(0, 1) && !fixed.before(1, 0));
  EXPECT_EQ(fixed.chain().size(), 7u);
}

using TimeLowerBound = SolverTest;

// Recorded programs and graphs of any order: every planner's schedule takes at least the bound.
TEST_F(TimeLowerBound, IsAboveNoPlannersSchedule) {
  int tighter = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const Graph graph =
        seed % 3 == 0 ? randomOrderGraph(seed, 6 + seed % 20) : randomGraph(seed, 3 + seed % 12);
    const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
    const Bytes budget = (peakLowerBound(graph) + peak) / 2;
    const Nanoseconds bound = timeLowerBound(graph, budget, {});
    EXPECT_GE(bound, recomputeLowerBound(graph, budget));
    tighter += bound > recomputeLowerBound(graph, budget);
    for (const char* name : {"greedy", "moccasin-local", "twremat", "dtr"}) {
      PlannerOptions options;
      options.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
      const PlanResult result = planner(name).plan(graph, budget, options);
      if (!result.feasible) continue;
      EXPECT_LE(bound, result.recompute_ns) << seed << " " << name;
    }
  }
  EXPECT_GE(tighter, 4);
}

// The bound half-way to keeping everything, against all schedules.
struct Compared {
  int feasible = 0, tight = 0;

  void add(const Graph& graph) {
    const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
    const Bytes budget = (peakLowerBound(graph) + peak) / 2;
    const auto least = ScheduleBruteForce(graph, budget).leastReplayTime();
    if (!least) return;
    const Nanoseconds bound = timeLowerBound(graph, budget, {});
    EXPECT_LE(bound, *least);
    tight += bound == *least;
    ++feasible;
  }
};

TEST_F(TimeLowerBound, IsAboveNoScheduleAtAll) {
  Compared compared;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph = randomOrderGraph(seed, 5 + seed % 4);
    graph.any_order = seed % 2 == 0;
    compared.add(graph);
  }
  EXPECT_GE(compared.tight, compared.feasible * 3 / 4);
}

TEST_F(TimeLowerBound, IsAboveNoRecordedStepsSchedule) {
  Compared compared;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    compared.add(tinyStep(seed, 3 + static_cast<int>(seed % 3)));
  }
  EXPECT_GE(compared.feasible, 15);
  EXPECT_GE(compared.tight, compared.feasible / 3);
}

// a and d, of 5 bytes each, take 1 and 9 ns; a replay of a takes 10 bytes more.
//   op:     0    1    2    3       4
//           a    d              reads a, d
//   fixed:  0    0    45   0      40           budget: 50
// One of them goes before op 2. Had op 3 a replay in front of it, a would come back there for 1 ns.
// Before event 4 a does not fit: 40 + d + a + 10 = 60. So d is made again there, in 9 ns. In the
// relaxation a share x of a is made again, and 1 - x of d: 15 x + 5 (2 x - 1) <= 10 gives x = 0.6
// and 0.6 + 0.4 * 9 = 4.2 ns.
TEST_F(TimeLowerBound, HasNoReplaysInAForwardPass) {
  Graph graph;
  const ValueId a = addForward(graph, {}, 5, 1);
  const ValueId d = addForward(graph, {}, 5, 9);
  graph.ops[0].workspace_bytes = 10;
  graph.ops.push_back({.fixed_bytes = 45, .fixed_at_start = 0});
  graph.ops.push_back({.duration_ns = 1});
  addEvent(graph, {a, d}, 40);
  checkGraph(graph);
  EXPECT_EQ(ScheduleBruteForce(graph, 50).leastReplayTime(), 9);
  EXPECT_EQ(timeLowerBound(graph, 50, {}), 5);
  graph.ops[4].backward = false;  // no recorded step then
  EXPECT_EQ(ScheduleBruteForce(graph, 50).leastReplayTime(), 1);
  EXPECT_EQ(timeLowerBound(graph, 50, {}), 1);
}

TEST_F(TimeLowerBound, SeesThatReplaysNeedReplays) {
  // x → v1 → v2 → v3 of 10 bytes, events read v3, v2, v1. At b3, v3 and one more fit in 20 bytes.
  // Of v1 and v2 one is made again, in 1 ns: from v1, or from x.
  EXPECT_EQ(timeLowerBound(chain(3), 20, {}), 1);
  // Of five values v1 to v4 are live at b5 but for 3 at least, and each of these is made again.
  EXPECT_GE(timeLowerBound(chain(5), 20, {}), 3);
}

TEST_F(TimeLowerBound, IsNothingWhereEverythingFits) {
  EXPECT_EQ(timeLowerBound(chain(5), 1000, {}), 0);
}

}  // namespace
}  // namespace ebbtide::scheduler
