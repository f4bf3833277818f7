#include "search/replay_machine.hpp"

#include <gtest/gtest.h>

#include <random>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "random_graphs.hpp"
#include "random_orders.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

// Figure 1 of kumar2019: A, B reads A, C reads B, D reads B and C, E reads A and D.
Graph figureOne() {
  UnitGraph graph;
  graph.add({});
  graph.add({0});
  graph.add({1});
  graph.add({1, 2});
  graph.add({0, 3});
  return graph.take();
}

Schedule made(const Graph& graph, const std::vector<OpId>& order) {
  ReplayMachine machine(graph);
  for (OpId op : order) machine.run(op);
  return machine.finish();
}

TEST(ReplayMachine, GivesFigureOnesTwoSchedules) {
  const Graph graph = figureOne();
  // A B C D E: at D its inputs B and C, D and A, which E reads.
  EXPECT_EQ(simulate(graph, made(graph, {0, 1, 2, 3, 4})).peak_bytes, 4);
  // A B C D A E: A ends after B. At D: B, C, D; at the end D, A, E.
  const Schedule again = made(graph, {0, 1, 2, 3, 0, 4});
  EXPECT_EQ(simulate(graph, again).peak_bytes, 3);
  EXPECT_EQ(toJson(again), toJson({{run(0), run(1), drop(0), run(2), run(3), drop(2), drop(1),
                                    run(0), run(4), drop(4), drop(0), drop(3)}}));
}

TEST(ReplayMachine, LeavesOutReplaysThatNothingReads) {
  const Graph graph = figureOne();
  // C's replay is read by none, so B's, for it, neither.
  const Schedule schedule = made(graph, {0, 1, 2, 3, 1, 2, 4});
  EXPECT_EQ(simulate(graph, schedule).recomputed_ops, 0);
  EXPECT_EQ(validate(graph, schedule).value_or(""), "");
}

TEST(ReplayMachine, MakesForgottenInputsAgain) {
  // x -> v1 -> v2 -> v3, then events that read v3, v2, v1. With v1 and v2 forgotten after the
  // forward pass the event of v2 takes replays of ops 0 and 1, which serve the last event too.
  const Graph graph = chain(3);
  ReplayMachine machine(graph);
  machine.run(2);
  machine.forget(1);
  machine.forget(2);
  EXPECT_EQ(machine.liveBytes(), 10);  // v3
  const Schedule schedule = machine.finish();
  EXPECT_EQ(validate(graph, schedule).value_or(""), "");
  EXPECT_EQ(simulate(graph, schedule).recompute_ns, 2);
  EXPECT_EQ(simulate(graph, schedule).peak_bytes, 20);
}

// Op 0 makes value 1; op 1 is backward but reads nothing, event 2 reads the value.
TEST(ReplayMachine, ReplaysBehindABackwardOpThatReadsNothing) {
  Graph graph;
  const ValueId value = addForward(graph, {addGraphInput(graph, 0, true)}, 10, 1);
  addEvent(graph, {});
  addEvent(graph, {value});
  ReplayMachine machine(graph);
  machine.run(0);
  machine.forget(value);
  machine.run(0);
  const Schedule schedule = machine.finish();
  EXPECT_EQ(validate(graph, schedule).value_or(""), "");
  EXPECT_EQ(toJson(schedule), toJson({{run(0), drop(1), run(1), run(0), run(2), drop(1)}}));
}

// Whatever is asked for.
TEST(ReplayMachine, IsLegalForAnyRequests) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const bool any_order = seed % 3 == 0;
    const Graph graph = any_order       ? randomOrderGraph(seed, 2 + seed % 40)
                        : seed % 3 == 1 ? randomGraph(seed, 2 + seed % 30)
                                        : randomAccumulatingStep(seed, 2 + seed % 15);
    std::mt19937_64 random(seed);
    ReplayMachine machine(graph);
    for (int i = 0; i < 100; ++i) {
      if (random() % 3 == 0) {
        machine.forget(static_cast<ValueId>(random() % graph.values.size()));
      } else {
        machine.run(static_cast<OpId>(random() % graph.ops.size()));
      }
    }
    ASSERT_EQ(validate(graph, machine.finish()).value_or(""), "") << seed;
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
