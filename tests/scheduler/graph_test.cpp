#include "ebbtide/scheduler/graph.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <stdexcept>

#include "random_graphs.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(Graph, SumsDurationsAndBytesThatAreNotPinned) {
  Graph graph = chain(3);  // 3 values of 10 bytes; 3 forward ops and 3 events of 1 ns
  EXPECT_EQ(graph.totalValueBytes(), 30);
  EXPECT_EQ(graph.totalDurationNs(), 6);
  graph.values[0].bytes = 1000;  // pinned
  EXPECT_EQ(graph.totalValueBytes(), 30);
}

TEST(Graph, SumsStopAtTheLargestNumber) {
  Graph graph = chain(2);
  graph.values[1].bytes = graph.values[2].bytes = kMax;
  graph.ops[0].duration_ns = graph.ops[1].duration_ns = kMax;
  EXPECT_EQ(graph.totalValueBytes(), kMax);
  EXPECT_EQ(graph.totalDurationNs(), kMax);
}

TEST(Graph, IsARecordedStepInProgramOrderWithBackwardEvents) {
  Graph graph = chain(2);
  EXPECT_TRUE(graph.isRecordedStep());
  graph.any_order = true;
  EXPECT_FALSE(graph.isRecordedStep());
  graph.any_order = false;
  graph.lazy_outputs = true;
  EXPECT_FALSE(graph.isRecordedStep());
  graph.lazy_outputs = false;
  graph.ops.resize(2);  // the forward ops
  EXPECT_FALSE(graph.hasBackward() || graph.isRecordedStep());
  EXPECT_FALSE(Graph{}.isRecordedStep());
}

TEST(Graph, HasReplaysInARecordedStepForBackwardEventsAlone) {
  Graph graph = chain(2);  // ops 0 and 1 forward, 2 and 3 events
  addEvent(graph, {});     // 4: a gap, and a forward op follows
  addForward(graph, {2}, 10, 1);
  addEvent(graph, {});  // 6: another one, and an event follows
  addEvent(graph, {3});
  addEvent(graph, {});
  EXPECT_EQ(replayPositions(graph),
            (std::vector<bool>{false, false, true, true, false, false, false, true, false}));
  graph.any_order = true;
  EXPECT_EQ(replayPositions(graph), std::vector<bool>(9, true));
}

TEST(Graph, LeavesOpsThatWaitToOthersThanPlanners) {
  Graph graph = chain(1);  // op 0 forward, 1 its event
  addWait(graph);          // 2
  addEvent(graph, {1});
  EXPECT_EQ(replayPositions(graph), (std::vector<bool>{false, true, false, true}));
  EXPECT_FALSE(graph.mayReplayBefore(0));
  EXPECT_TRUE(graph.mayReplayBefore(1) && graph.mayReplayBefore(2));
}

struct BadGraph {
  std::string message;
  std::function<void(Graph&)> spoil;
};

// On chain(3): ops 0, 1, 2 forward, 3, 4, 5 events; op i reads value i and writes value i + 1.
const BadGraph kBadGraphs[] = {
    {"reads value 9, which does not exist", [](Graph& g) { g.ops[1].inputs = {9}; }},
    {"reads value -1, which does not exist", [](Graph& g) { g.ops[1].inputs = {-1}; }},
    {"lists value 1 twice",
     [](Graph& g) {
       g.ops[1].inputs = {1, 1};
     }},
    {"reads value 3 before it is produced", [](Graph& g) { g.ops[1].inputs = {3}; }},
    {"reads value 2 before it is produced", [](Graph& g) { g.ops[1].inputs = {2}; }},
    {"reads value 1 after op 2 overwrote it", [](Graph& g) { g.values[1].overwritten_by = 2; }},
    {"writes value 9, which does not exist", [](Graph& g) { g.ops[0].outputs = {9}; }},
    {"writes value 1 again",
     [](Graph& g) {
       g.ops[0].outputs = {1, 1};
     }},
    {"writes value 2, whose producer is another op",
     [](Graph& g) {
       g.ops[0].outputs = {1, 2};
     }},
    {"value 1 is not among its producer's outputs", [](Graph& g) { g.ops[0].outputs = {}; }},
    {"has negative bytes", [](Graph& g) { g.values[2].bytes = -1; }},
    {"negative duration", [](Graph& g) { g.ops[2].duration_ns = -1; }},
    {"negative workspace", [](Graph& g) { g.ops[2].workspace_bytes = -1; }},
    {"fixed bytes at its start", [](Graph& g) { g.ops[2].fixed_at_start = 1 << 20; }},
    {"negative fixed bytes", [](Graph& g) { g.ops[2].fixed_bytes = -1; }},
    {"is backward and rerunnable", [](Graph& g) { g.ops[4].rerunnable = true; }},
    {"op 0 (f0) waits and reads or makes values", [](Graph& g) { g.ops[0].waits = true; }},
    {"waits and is rerunnable",
     [](Graph& g) { g.ops.push_back({.rerunnable = true, .waits = true, .inputs = {}}); }},
    {"waits and is backward",
     [](Graph& g) { g.ops.push_back({.backward = true, .waits = true, .inputs = {}}); }},
    {"waits in a graph of any order",
     [](Graph& g) {
       addWait(g);
       g.any_order = true;
     }},
    {"names op 77, which does not exist", [](Graph& g) { g.values[1].last_reference = 77; }},
    {"writes value 1, whose producer is another op", [](Graph& g) { g.values[1].producer = -5; }},
    {"is overwritten before it is produced", [](Graph& g) { g.values[3].overwritten_by = 2; }},
    {"takes over value 1, which", [](Graph& g) { g.values[3].previous_epoch = 1; }},
    {"names value 3 as its previous epoch", [](Graph& g) { g.values[3].previous_epoch = 3; }},
    {"source with a previous epoch", [](Graph& g) { g.values[0].previous_epoch = 1; }},
    {"bytes do not fit", [](Graph& g) { g.values[1].bytes = kMax / 2; }},
    {"bytes do not fit", [](Graph& g) { g.ops[1].fixed_bytes = kMax; }},
    {"durations do not fit", [](Graph& g) { g.ops[1].duration_ns = kMax; }},
};

TEST(CheckGraph, NamesWhatIsWrong) {
  for (const BadGraph& bad : kBadGraphs) {
    Graph graph = chain(3);
    ASSERT_NO_THROW(checkGraph(graph));
    bad.spoil(graph);
    try {
      checkGraph(graph);
      ADD_FAILURE() << "accepted: " << bad.message;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(bad.message), std::string::npos)
          << error.what() << " is not about: " << bad.message;
    }
  }
}

TEST(CheckGraph, AcceptsAnEmptyGraph) {
  EXPECT_NO_THROW(checkGraph(Graph{}));
}

TEST(CheckGraph, RejectsTwoHeirsOfOneStorage) {
  Graph graph;
  const ValueId source = addGraphInput(graph, 10);
  const ValueId first = addForward(graph, {source}, 10, 1);
  const ValueId second = addInPlace(graph, first, 1);
  EXPECT_NO_THROW(checkGraph(graph));
  graph.values.push_back({.bytes = 10, .producer = graph.values[second].producer});
  graph.values.back().previous_epoch = first;
  graph.ops.back().outputs.push_back(3);
  EXPECT_THROW(checkGraph(graph), std::invalid_argument);
}

TEST(LastReplayPositions, NeedARerunnableOpAndInputsThatLast) {
  Graph graph;
  const ValueId source = addGraphInput(graph, 10);
  const ValueId a = addForward(graph, {source}, 10, 1);
  const ValueId b = addForward(graph, {a}, 10, 1);
  const ValueId c = addForward(graph, {b}, 10, 1);
  graph.ops.push_back({.name = "writer"});
  using Positions = std::vector<OpId>;
  EXPECT_EQ(lastReplayPositions(graph), (Positions{kNone, 4, 4, 4}));
  graph.ops[0].rerunnable = false;  // a is gone once dropped, but may be retained for b
  EXPECT_EQ(lastReplayPositions(graph), (Positions{kNone, kNone, 4, 4}));
  graph.values[a].overwritten_by = 2;  // now only until then
  EXPECT_EQ(lastReplayPositions(graph), (Positions{kNone, kNone, 2, 4}));
  graph.values[b].overwritten_by = 3;
  EXPECT_EQ(lastReplayPositions(graph), (Positions{kNone, kNone, 2, 3}));
  EXPECT_EQ(c, 3);
}

TEST(LastReplayPositions, FollowTheFirstInputToBeOverwritten) {
  Graph graph;
  const ValueId source = addGraphInput(graph, 10);
  const ValueId a = addForward(graph, {source}, 10, 1);
  addForward(graph, {a}, 10, 1);
  graph.ops.push_back({.name = "writer"});
  graph.values[source].overwritten_by = 2;
  // a needs the graph input, so it can be made again before op 2 runs; b can be made from a, whose
  // first copy may be retained, at any time.
  EXPECT_EQ(lastReplayPositions(graph), (std::vector<OpId>{kNone, 2, 3}));
}

}  // namespace
}  // namespace ebbtide::scheduler
