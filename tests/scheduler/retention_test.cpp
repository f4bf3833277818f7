#include "search/retention.hpp"

#include <gtest/gtest.h>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "gpt_graph.hpp"
#include "random_graphs.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

Retention uniform(const Graph& graph, bool keep, bool memo) {
  Retention retention;
  retention.keep.assign(graph.values.size(), keep);
  retention.memo.assign(graph.values.size(), memo);
  return retention;
}

// chain(3): op i makes value i + 1; events 3, 4, 5 read values 3, 2, 1.
TEST(BuildSchedule, MemoRetainsRecomputedCopiesToTheirLastReader) {
  const Graph graph = chain(3);
  const std::vector<Step> expected = {
      run(0), drop(1), run(1), drop(2), run(2),  drop(3),  // nothing is kept
      run(0), run(1),  run(2), run(3),  drop(3),           // one cone makes all three
      run(4), drop(2), run(5), drop(1)};
  EXPECT_EQ(buildSchedule(graph, uniform(graph, false, true)).steps, expected);
}

TEST(BuildSchedule, WithoutMemoEachEventRecomputesItsOwnCone) {
  const Graph graph = chain(3);
  const std::vector<Step> expected = {
      run(0),  drop(1), run(1),  drop(2), run(2),  drop(3), run(0), run(1),
      drop(1), run(2),  drop(2), run(3),  drop(3),  // the cone's inputs go at once
      run(0),  run(1),  drop(1), run(4),  drop(2), run(0),  run(5), drop(1)};
  EXPECT_EQ(buildSchedule(graph, uniform(graph, false, false)).steps, expected);
}

TEST(BuildSchedule, MemoMayBeginLaterThanTheFirstRecompute) {
  const Graph graph = chain(3);
  Retention retention = uniform(graph, false, true);
  retention.memo_from.assign(graph.values.size(), 4);
  const std::vector<Step> expected = {
      run(0), drop(1), run(1), drop(2), run(2), drop(3), run(0),
      run(1), drop(1), run(2), drop(2), run(3), drop(3),   // event 3 retains nothing
      run(0), run(1),  run(4), drop(2), run(5), drop(1)};  // event 4 serves event 5 too
  EXPECT_EQ(buildSchedule(graph, retention).steps, expected);
}

TEST(BuildSchedule, KeptValuesAreRetainedAsCheckpoints) {
  const Graph graph = chain(3);
  Retention retention = uniform(graph, false, true);
  retention.keep[2] = true;
  const std::vector<Step> expected = {run(0), drop(1), run(1),  run(2), drop(3),
                                      run(2), run(3),  drop(3),  // from value 2, kept
                                      run(4), drop(2), run(0),  run(5), drop(1)};
  EXPECT_EQ(buildSchedule(graph, retention).steps, expected);
}

TEST(BuildSchedule, KeepsWhatCannotBeRecomputed) {
  Graph graph = chain(3);
  graph.ops[1].rerunnable = false;
  const std::vector<Step> expected = {run(0),  drop(1), run(1),  run(2), drop(3), run(2), run(3),
                                      drop(3), run(4),  drop(2), run(0), run(5),  drop(1)};
  EXPECT_EQ(buildSchedule(graph, uniform(graph, false, true)).steps, expected);
}

TEST(BuildSchedule, ReplaysAnInPlaceOpOnAFreshInput) {
  Graph graph;
  const ValueId x = addGraphInput(graph, 10);
  addEvent(graph, {addInPlace(graph, addForward(graph, {x}, 10, 1), 1)});
  // Value 1 has no drop after op 1: the program overwrote it. Its recomputed copy is dropped
  // directly after the replay, so that value 2 takes its bytes over.
  const std::vector<Step> expected = {run(0),  drop(1), run(1),  drop(2), run(0),
                                      drop(0), run(1),  drop(1), run(2),  drop(2)};
  EXPECT_EQ(buildSchedule(graph, uniform(graph, false, true)).steps, expected);
}

TEST(BuildSchedule, DropsAtOnceWhatAReplayMakesForNobody) {
  Graph graph = chain(2);
  graph.values.push_back({.bytes = 100, .producer = 0});
  graph.ops[0].outputs.push_back(3);
  const Schedule schedule = buildSchedule(graph, uniform(graph, false, true));
  // As in the simulator's test of the same graph: 110, 20, 110 in the replay, 10.
  EXPECT_EQ(simulate(graph, schedule).live_bytes, (std::vector<Bytes>{110, 20, 110, 10}));
}

TEST(BuildSchedule, IsLegalForAnyRetention) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const Graph graph = randomGraph(seed, 3 + seed % 40);
    ASSERT_NO_THROW(checkGraph(graph)) << seed;
    const Bytes bound = peakLowerBound(graph);
    ScheduleBuilder builder(graph);
    std::mt19937_64 random(seed);
    for (int variant = 0; variant < 8; ++variant) {
      Retention retention = uniform(graph, false, variant % 2 == 0);
      for (std::size_t id = 0; id < graph.values.size() && variant > 1; ++id) {
        retention.keep[id] = random() % 2 == 0;
        retention.memo[id] = random() % 2 == 0;
        if (variant > 4) {
          retention.memo_from.push_back(static_cast<OpId>(random() % graph.ops.size()));
        }
      }
      const Schedule schedule = builder.build(retention);
      ASSERT_EQ(validate(graph, schedule).value_or(""), "") << seed << " " << variant;
      ASSERT_GE(simulate(graph, schedule).peak_bytes, bound) << seed << " " << variant;
    }
  }
}

TEST(BuildSchedule, KeepingAllIsNoWorseThanKeepingEverything) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const Graph graph = randomGraph(seed, 3 + seed % 40);
    ScheduleBuilder builder(graph);
    const Simulation all = simulate(graph, builder.build(builder.keepAll()));
    EXPECT_LE(all.peak_bytes, simulate(graph, keepEverything(graph)).peak_bytes) << seed;
    EXPECT_EQ(all.recompute_ns, 0) << seed;
  }
}

TEST(BuildSchedule, DoesNotRecurseOnLongChains) {
  const Graph graph = chain(100000);
  const Schedule schedule = buildSchedule(graph, uniform(graph, false, true));
  EXPECT_EQ(validate(graph, schedule).value_or(""), "");
  EXPECT_EQ(simulate(graph, schedule).recomputed_ops, 100000);
}

}  // namespace
}  // namespace ebbtide::scheduler
