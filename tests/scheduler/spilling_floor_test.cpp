#include "ebbtide/scheduler/spilling_floor.hpp"

#include <gtest/gtest.h>

#include "small_traces.hpp"

namespace ebbtide::scheduler {
namespace {

Op op(std::vector<ValueId> inputs, std::vector<ValueId> outputs, bool backward = false) {
  Op made;
  made.fixed_bytes = 10;
  made.backward = backward;
  made.inputs = std::move(inputs);
  made.outputs = std::move(outputs);
  return made;
}

// 950 fixed, x's 50 held by the program throughout, and v1 with v2 while op 1 makes the one of the
// other: the program lets go of them after it. Each event reads one of them: 950 + 50 + 100.
TEST(SpillingFloor, CountsWhatAnOpTouchesAndWhatTheProgramHolds) {
  EXPECT_EQ(spillingFloor(buildGraph(twoOps()).graph).bytes, 1200);
}

// Op 1 writes in place: v1 takes over v0's 100 B. Beside 10 fixed bytes there are never more.
TEST(SpillingFloor, CountsWhatIsWrittenInPlaceOnce) {
  Graph graph;
  graph.ops = {op({}, {0}), op({0}, {1}), op({1}, {}, true)};
  graph.values = {{100, 0, 1, 1, kNone}, {100, 1, 2, kNone, 0}};
  checkGraph(graph);
  EXPECT_EQ(spillingFloor(graph).bytes, 110);
}

// The same, but that the program let go of v0 before op 1 wrote it: it comes from the host for
// that.
TEST(SpillingFloor, CountsOnceWhatComesBackToBeWrittenInPlace) {
  Graph graph;
  graph.ops = {op({}, {0}), op({}, {}), op({0}, {1}), op({1}, {}, true)};
  graph.values = {{100, 0, 0, 2, kNone}, {100, 2, 3, kNone, 0}};
  checkGraph(graph);
  EXPECT_EQ(spillingFloor(graph).bytes, 110);
}

// Two values of 100 B that one event reads; the program let go of both.
TEST(SpillingFloor, CountsAllThatOneEventReads) {
  Graph graph;
  graph.ops = {op({}, {0}), op({}, {1}), op({0, 1}, {}, true)};
  graph.values = {{100, 0, 0}, {100, 1, 1}};
  checkGraph(graph);
  EXPECT_EQ(spillingFloor(graph).bytes, 210);
}

// -------------------------------------------------------------------------------------------------
// what is live there

FloorBlocks floorOf(const Trace& trace) {
  const TraceGraph graph = buildGraph(trace);
  return floorBlocks(trace, graph, spillingFloor(graph.graph));
}

// Op 1 reads v1 and makes v2, 100 B each.
TEST(FloorBlocks, AreWhatAnOpReadsAndMakes) {
  const FloorBlocks found = floorOf(twoOps());
  EXPECT_EQ(found.by, "second");
  EXPECT_EQ(found.place, FloorBlocks::Place::kInStep);
  EXPECT_EQ(describe(found), "second, 2 blocks of 100 B");
}

// The second node reads v1 and makes 400 B: more than op 1 needs.
TEST(FloorBlocks, AreNamedByTheNodeOfABackwardPass) {
  Trace trace = twoOps();
  trace.nodes = {"SinBackward0", "CosBackward0"};
  trace.events[12].id = 1;
  trace.blocks.push_back({400, false, false});
  trace.events.insert(trace.events.begin() + 14, {TraceEvent::Kind::kAlloc, 3, 11});
  EXPECT_EQ(describe(floorOf(trace)), "CosBackward0, 1 block of 400 B, 1 block of 100 B");
}

// The first node has made 250 B that no value names, a gradient on its way: it is there too.
TEST(FloorBlocks, AreAlsoWhatEarlierNodesLeft) {
  Trace trace = twoOps();
  trace.nodes = {"SinBackward0", "CosBackward0"};
  trace.events[12].id = 1;
  trace.blocks.push_back({400, false, false});
  trace.blocks.push_back({250, false, false});
  trace.events.insert(trace.events.begin() + 14, {TraceEvent::Kind::kAlloc, 3, 11});
  trace.events.insert(trace.events.begin() + 12,
                      {TraceEvent::Kind::kAlloc, 4, trace.events[12].at_ns});
  EXPECT_EQ(describe(floorOf(trace)), "CosBackward0, 1 block of 400 B, 1 block of 250 B");
}

// Twice 300 B once the last node is done: within the optimizer's step, or after it. Where no
// optimizer is seen it may be either.
TEST(FloorBlocks, MayBeThoseOfTheUpdateOrOfWhatFollowsIt) {
  Trace trace = twoOps();
  const std::int64_t before = std::ssize(trace.events);
  trace.blocks.insert(trace.blocks.end(), 2, {300, false, false});
  trace.events.push_back({TraceEvent::Kind::kAlloc, 3, 13});
  trace.events.push_back({TraceEvent::Kind::kAlloc, 4, 14});
  trace.updated_at = before + 2;
  EXPECT_EQ(describe(floorOf(trace)), "the optimizer's step, not activations, 2 blocks of 300 B");
  trace.updated_at = before + 1;  // the first of the two is left of it
  EXPECT_EQ(describe(floorOf(trace)),
            "what follows the update (an evaluation?), 2 blocks of 300 B");
  trace.updated_at = kNone;
  EXPECT_EQ(describe(floorOf(trace)),
            "what follows the backward pass (an update?), 2 blocks of 300 B");
}

}  // namespace
}  // namespace ebbtide::scheduler
