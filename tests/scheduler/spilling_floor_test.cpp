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
  EXPECT_EQ(spillingFloor(buildGraph(twoOps()).graph), 1200);
}

// Op 1 writes in place: v1 takes over v0's 100 B. Beside 10 fixed bytes there are never more.
TEST(SpillingFloor, CountsWhatIsWrittenInPlaceOnce) {
  Graph graph;
  graph.ops = {op({}, {0}), op({0}, {1}), op({1}, {}, true)};
  graph.values = {{100, 0, 1, 1, kNone}, {100, 1, 2, kNone, 0}};
  checkGraph(graph);
  EXPECT_EQ(spillingFloor(graph), 110);
}

// The same, but that the program let go of v0 before op 1 wrote it: it comes from the host for
// that.
TEST(SpillingFloor, CountsOnceWhatComesBackToBeWrittenInPlace) {
  Graph graph;
  graph.ops = {op({}, {0}), op({}, {}), op({0}, {1}), op({1}, {}, true)};
  graph.values = {{100, 0, 0, 2, kNone}, {100, 2, 3, kNone, 0}};
  checkGraph(graph);
  EXPECT_EQ(spillingFloor(graph), 110);
}

// Two values of 100 B that one event reads; the program let go of both.
TEST(SpillingFloor, CountsAllThatOneEventReads) {
  Graph graph;
  graph.ops = {op({}, {0}), op({}, {1}), op({0, 1}, {}, true)};
  graph.values = {{100, 0, 0}, {100, 1, 1}};
  checkGraph(graph);
  EXPECT_EQ(spillingFloor(graph), 210);
}

}  // namespace
}  // namespace ebbtide::scheduler
