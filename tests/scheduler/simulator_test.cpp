#include "ebbtide/scheduler/simulator.hpp"

#include <gtest/gtest.h>

#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "random_graphs.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

Simulation play(const Graph& graph, std::vector<Step> steps) {
  const Schedule schedule{std::move(steps)};
  EXPECT_EQ(validate(graph, schedule).value_or(""), "");
  return simulate(graph, schedule);
}

TEST(Simulator, KeepsEverything) {
  // Forward adds 10 bytes an op; event 3 reads the third value, which then goes, and so on down.
  const Graph graph = chain(3);
  const Simulation result = simulate(graph, keepEverything(graph));
  EXPECT_EQ(result.live_bytes, (std::vector<Bytes>{10, 20, 30, 30, 20, 10}));
  EXPECT_EQ(result.peak_bytes, 30);
  EXPECT_EQ(result.peak_op, 2);
  EXPECT_EQ(result.peak_step, 2u);
  EXPECT_EQ(result.duration_ns, 6);
  EXPECT_EQ(result.recompute_ns, 0);
}

TEST(Simulator, CountsAReplayWithTheNextOpsFixedBytesAndItsWorkspace) {
  Graph graph = chain(3);
  graph.ops[1].workspace_bytes = 5;
  graph.ops[4].fixed_bytes = 7;
  const Simulation result = play(graph, {run(0), run(1), drop(2), run(2), run(3), drop(3), run(1),
                                         run(4), drop(2), run(5), drop(1)});
  // Op 2: values 1 and 3, and value 2, which the program holds until then: 30; then 20. The replay
  // of op 1 before event 4: value 1 + new value 2 + workspace 5 + fixed 7 = 32; event 4 itself: 20
  // + 7.
  EXPECT_EQ(result.live_bytes, (std::vector<Bytes>{10, 20, 30, 20, 32, 10}));
  EXPECT_EQ(result.peak_bytes, 32);
  EXPECT_EQ(result.peak_op, 3);  // the last op that had run for the first time
  EXPECT_EQ(result.peak_step, 6u);
  EXPECT_EQ(result.recompute_ns, 1);
  EXPECT_EQ(result.recomputed_ops, 1);
  EXPECT_EQ(result.duration_ns, 7);
}

// Op 0 makes value 1, op 1 value 2 and event 2 reads that; op 3 waits; event 4 reads value 1.
TEST(Simulator, CountsAReplayBeforeAWaitWithTheFixedBytesThere) {
  Graph graph = chain(2);
  graph.ops[0].workspace_bytes = 5;
  graph.ops.pop_back();
  addWait(graph, 100);
  addEvent(graph, {1}, 7);
  // Before the wait value 1, its workspace and 100 fixed bytes: 115, then 110; the event: 10 + 7.
  const Simulation ahead =
      play(graph, {run(0), run(1), drop(1), run(2), drop(2), run(0), run(3), run(4), drop(1)});
  EXPECT_EQ(ahead.live_bytes, (std::vector<Bytes>{10, 20, 10, 115, 17}));
  EXPECT_EQ(ahead.run_bytes, (std::vector<Bytes>{10, 20, 10, 110, 17}));
  // After it nothing is live while the program waits: 100. Then 10 + 5 + 7.
  const Simulation after =
      play(graph, {run(0), run(1), drop(1), run(2), drop(2), run(3), run(0), run(4), drop(1)});
  EXPECT_EQ(after.live_bytes, (std::vector<Bytes>{10, 20, 10, 100, 22}));
  EXPECT_EQ(after.recompute_ns, ahead.recompute_ns);
}

TEST(Simulator, AnInPlaceOpTakesTheBytesOver) {
  // Op 0: x + a = 20. Op 1: b in a's place, x gone = 10.
  const Simulation result = play(inPlaceGraph(), {run(0), drop(0), run(1), run(2), drop(2)});
  EXPECT_EQ(result.live_bytes, (std::vector<Bytes>{20, 10, 10}));
}

TEST(Simulator, AReplayInPlaceTakesOverOnlyWhatIsDroppedNext) {
  const Graph graph = inPlaceGraph();
  // The replays with x retained: op 0 makes x + a = 20, op 1 puts b in a's place: 20.
  const Simulation over =
      play(graph, {run(0), run(1), drop(2), run(0), run(1), drop(1), drop(0), run(2), drop(2)});
  EXPECT_EQ(over.live_bytes, (std::vector<Bytes>{20, 20, 20}));
  // With a retained beyond the replay, it needs its own bytes: x + a + b = 30.
  const Simulation copied =
      play(graph, {run(0), run(1), drop(2), run(0), run(1), run(2), drop(1), drop(0), drop(2)});
  EXPECT_EQ(copied.live_bytes, (std::vector<Bytes>{20, 20, 30}));
}

// The program overwrites its own copy of a; the copy that a replay made lives on beside b.
//   op 0: a (1000)    op 1: c (1), reads a    op 2: b in a's place    op 3: d (5000)    event 4: d
TEST(Simulator, AReplayedCopyOutlivesTheOverwritingOfTheFirst) {
  Graph graph;
  const ValueId a = addForward(graph, {}, 1000, 1);
  const ValueId c = addForward(graph, {a}, 1, 1);
  addEvent(graph, {c});
  const ValueId b = addInPlace(graph, a, 1);
  const ValueId d = addForward(graph, {b}, 5000, 1);
  addEvent(graph, {d});
  for (ValueId held : {c, b, d}) graph.values[held].last_reference = 5;
  const Simulation result = play(
      graph, {run(0), drop(a), run(1), run(0), run(2), run(3), run(4), run(1), drop(a), run(5)});
  // Op 1: a and c = 1001. The replay of op 0 for event 2 adds a second a, so op 3 has a, b, c =
  // 2001, op 4 d on top = 7001. The replay of op 1 before event 5 makes c again: 7002. Then the
  // second a goes.
  EXPECT_EQ(result.live_bytes, (std::vector<Bytes>{1000, 1001, 2001, 2001, 7001, 7002}));
}

TEST(Simulator, TheProgramsCopyAndAReplaysBothCount) {
  Graph graph = chain(1);  // op 0 makes value 1, event 1 reads it
  graph.values[1].last_reference = 1;
  const Simulation result = play(graph, {run(0), drop(1), run(0), run(1), drop(1)});
  EXPECT_EQ(result.live_bytes, (std::vector<Bytes>{10, 20}));
}

TEST(Simulator, OutputsThatNobodyAsksForDieAtOnce) {
  Graph graph = chain(2);
  graph.values.push_back({.bytes = 100, .producer = 0});  // value 3, a second output of op 0
  graph.ops[0].outputs.push_back(3);
  const Simulation result = play(
      graph, {run(0), drop(1), drop(3), run(1), drop(2), run(0), run(1), run(2), drop(2), run(3)});
  // Op 0: 110. Op 1: value 1 by the program and value 2 = 20. Replay of op 0: 110, and 100 go;
  // replay of op 1: 20, as event 2. Event 3: 10.
  EXPECT_EQ(result.live_bytes, (std::vector<Bytes>{110, 20, 110, 10}));
}

TEST(Simulator, AReplayLeavesALiveCopyInPlace) {
  const Graph graph = chain(1);
  const Simulation result = play(graph, {run(0), run(0), run(1), drop(1)});
  EXPECT_EQ(result.live_bytes,
            (std::vector<Bytes>{10, 20}));  // two during the replay, one after it
}

TEST(Simulator, OffloadFreesAndFetchAddsBytes) {
  Graph graph = chain(2);
  graph.ops[1].fixed_bytes = 3;
  graph.ops[3].fixed_bytes = 4;
  graph.values[1].last_reference = kNone;
  const Simulation result = play(graph, {run(0), offload(1), fetch(1), run(1), offload(1), run(2),
                                         drop(2), fetch(1), run(3), drop(1)});
  // The fetch before op 1: 10 + 3; op 1: 20 + 3. Event 2: value 2. The fetch before event 3: 10
  // + 4.
  EXPECT_EQ(result.live_bytes, (std::vector<Bytes>{10, 23, 10, 14}));
}

TEST(Simulator, AReplayLeavesTheCopyOnTheHostThere) {
  // The replay of op 0 before event 2: value 2, and for its time another value 1. Then only the
  // fetched one is live.
  const Simulation result = play(
      chain(2), {run(0), run(1), offload(1), run(0), run(2), drop(2), fetch(1), run(3), drop(1)});
  EXPECT_EQ(result.live_bytes, (std::vector<Bytes>{10, 20, 20, 10}));
}

TEST(Simulator, ValuesNeverDroppedStay) {
  const Graph graph = chain(2);
  const Simulation result = play(graph, {run(0), run(1), run(2), run(3)});
  EXPECT_EQ(result.live_bytes, (std::vector<Bytes>{10, 20, 20, 20}));
}

TEST(Simulator, AnEmptyGraphCostsNothing) {
  EXPECT_EQ(simulate(Graph{}, Schedule{}).peak_bytes, 0);
  EXPECT_EQ(peakLowerBound(Graph{}), 0);
  EXPECT_TRUE(keepEverything(Graph{}).steps.empty());
}

TEST(Simulator, ReplaysRunBeforeTheNextOpAllocatesItsFixedBytes) {
  Graph graph = chain(2);  // event 2 reads value 2
  graph.ops[2].fixed_bytes = 50;
  const std::vector<Step> steps = {run(0), drop(1), run(1),  drop(2), run(0),
                                   run(1), run(2),  drop(2), run(3),  drop(1)};
  // 20 bytes of values: 70 with the event's own 50, to which the replays are put by default.
  EXPECT_EQ(simulate(graph, {steps}).peak_step, 5U);
  graph.ops[2].fixed_at_start = 30;
  EXPECT_EQ(simulate(graph, {steps}).peak_step, 6U);
  EXPECT_EQ(simulate(graph, {steps}).peak_bytes, 70);
}

// rotor2024, Definition 3.3: a forward op that saves nothing takes only what it hands on.
TEST(Simulator, LazyOutputsThatAreDroppedAtOnceTakeNoBytes) {
  Graph graph;
  graph.lazy_outputs = true;
  graph.values = {{.bytes = 10, .producer = 0}, {.bytes = 100, .producer = 0}};
  graph.ops = {{.duration_ns = 1, .rerunnable = true, .outputs = {0, 1}},
               {.duration_ns = 2, .backward = true, .inputs = {0, 1}}};
  checkGraph(graph);
  // Both kept: 10 + 100. First 10 alone; then the op again: the copy of value 0 stays, 100 come.
  EXPECT_EQ(simulate(graph, {{run(0), run(1)}}).peak_bytes, 110);
  const Schedule twice = {{run(0), drop(1), run(0), run(1)}};
  ASSERT_EQ(validate(graph, twice).value_or(""), "");
  EXPECT_EQ(simulate(graph, twice).live_bytes, (std::vector<Bytes>{10, 110}));
  EXPECT_EQ(simulate(graph, twice).recompute_ns, 1);
  graph.lazy_outputs = false;  // the first run makes both; the replay a second value 0 too
  EXPECT_EQ(simulate(graph, twice).live_bytes, (std::vector<Bytes>{110, 120}));
}

TEST(Simulator, AnyOrderCountsAnOpsFirstComingAsItsFirstRun) {
  Graph graph;  // op 0 -> value 0, op 1 -> value 1, op 2 reads both
  graph.any_order = true;
  graph.values = {{.bytes = 3, .producer = 0}, {.bytes = 5, .producer = 1}};
  graph.ops = {{.duration_ns = 1, .rerunnable = true, .outputs = {0}},
               {.duration_ns = 2, .rerunnable = true, .outputs = {1}},
               {.duration_ns = 4, .inputs = {0, 1}}};
  checkGraph(graph);
  const Schedule swapped = {{run(1), run(0), run(2)}};
  ASSERT_EQ(validate(graph, swapped).value_or(""), "");
  EXPECT_EQ(simulate(graph, swapped).live_bytes, (std::vector<Bytes>{5, 8, 8}));
  EXPECT_EQ(simulate(graph, swapped).recompute_ns, 0);
  EXPECT_NE(validate(graph, {{run(1), run(2), run(0)}}).value_or(""), "");  // value 0 is not live
  EXPECT_NE(validate(graph, {{run(1), run(0)}}).value_or(""), "");          // op 2 never runs
  graph.any_order = false;
  EXPECT_NE(validate(graph, swapped).value_or(""), "");
  graph.any_order = true;
  graph.values[0].last_reference = 2;
  EXPECT_THROW(checkGraph(graph), std::invalid_argument);
}

TEST(LowerBound, CountsInputsOutputsAndWhatTheProgramHolds) {
  Graph graph = chain(3);
  EXPECT_EQ(peakLowerBound(graph), 20);  // any op's input and output
  graph.values[1].last_reference = 4;    // held beside values 2 and 3 of op 2
  EXPECT_EQ(peakLowerBound(graph), 30);
  graph.ops[4].fixed_bytes = 25;  // event 4: values 1 and 2
  EXPECT_EQ(peakLowerBound(graph), 45);
}

TEST(LowerBound, CountsWhatCannotBeRecomputed) {
  Graph graph = chain(3);
  graph.ops[0].rerunnable = false;  // value 1 waits for event 5, beside values 2 and 3 of op 2
  EXPECT_EQ(peakLowerBound(graph), 30);
}

// An op's input that was made again may wait for it, beyond the last time when that could be done.
//   op:   0        1        2            3         4            5          6
//         J -> I   I -> V   I -> I'      reads I'  J -> J'      100 B      reads V
// J and I are written over by ops 4 and 2, so I can be made again up to op 4; V from that I after
// op 5. J, I and V (100 B) at op 1: 102 B.
TEST(LowerBound, KnowsThatWhatWasMadeAgainMayWait) {
  Graph graph;
  const ValueId j = addGraphInput(graph, 1);
  const ValueId i = addForward(graph, {j}, 1, 1), v = addForward(graph, {i}, 100, 1);
  const ValueId after_i = addInPlace(graph, i, 1);
  addEvent(graph, {after_i});
  const ValueId after_j = addInPlace(graph, j, 1);
  addEvent(graph, {}, 100);
  addEvent(graph, {v});
  checkGraph(graph);
  const Schedule schedule = {{run(0), run(1), drop(v), run(2), run(0), run(3), drop(after_i),
                              run(4), drop(after_j), run(5), run(1), drop(i), run(6)}};
  ASSERT_EQ(validate(graph, schedule).value_or(""), "");
  EXPECT_EQ(simulate(graph, schedule).peak_bytes, 102);
  EXPECT_EQ(peakLowerBound(graph), 102);
}

TEST(RecomputeLowerBound, TakesTheCheapestRoomAtEachOp) {
  Graph graph = chain(4);  // 40 bytes at op 3 (values 1 to 4; 3 and 4 are its own)
  EXPECT_EQ(recomputeLowerBound(graph, 40), 0);
  EXPECT_EQ(recomputeLowerBound(graph, 30), 1);  // value 1 or 2, or half of both
  EXPECT_EQ(recomputeLowerBound(graph, 20), 2);  // both
  graph.ops[1].duration_ns = 8;                  // value 2: value 1 goes first
  EXPECT_EQ(recomputeLowerBound(graph, 30), 1);
  EXPECT_EQ(recomputeLowerBound(graph, 25), 1 + 8 / 2);
  graph.values[1].last_reference = 3;  // held by the program then: value 2 is all there is
  EXPECT_EQ(recomputeLowerBound(graph, 30), 8);
}

TEST(RecomputeLowerBound, IsNotAboveWhatAPlannerFinds) {
  PlannerOptions options;
  options.named["work"] = "20000";
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = randomGraph(seed, 5 + seed % 30);
    const Bytes bound = peakLowerBound(graph);
    const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
    for (Bytes budget : {bound, (3 * bound + peak) / 4, (bound + peak) / 2}) {
      const PlanResult result = planner("greedy").plan(graph, budget, options);
      EXPECT_GE(result.recompute_ns, recomputeLowerBound(graph, result.peak_bytes)) << seed;
    }
  }
}

TEST(LowerBound, IsNotAboveKeepingEverything) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Graph graph = randomGraph(seed, 3 + seed % 30);
    EXPECT_LE(peakLowerBound(graph), simulate(graph, keepEverything(graph)).peak_bytes) << seed;
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
