// Graphs that are kept (retain_graph, zero bubble): what saved tensors hold after its last read.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/gzip.hpp"
#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/graph_file.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "ebbtide/scheduler/value_copies.hpp"
#include "small_traces.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = Step::Kind;

// keptGraph() as a graph: ops 0 and 1 are forward, 2 reads v2 and 3 reads v1, op 4 makes v3, 5
// reads v1 again and lets go of both. 950 B are fixed: 1000 at the start less x's 50.
std::vector<OpId> savedLast(const Graph& graph) {
  std::vector<OpId> last;
  for (const Value& value : graph.values) last.push_back(value.saved_last);
  return last;
}

TEST(KeptGraphs, ValuesAreSavedLongerThanTheyAreRead) {
  const Graph graph = buildGraph(keptGraph()).graph;
  ASSERT_EQ(graph.ops.size(), 6u);
  EXPECT_EQ(savedLast(graph), (std::vector<OpId>{kNone, kNone, 5, kNone}));
  // As the allocator saw it: 1000 at the start, v1, v2 and v3: 1000 + 100 + 100 + 300.
  const Simulation plain = simulate(graph, keepEverything(graph));
  EXPECT_EQ(plain.peak_bytes, 1500);
  // 950 and x; v1; v2; nothing goes until v3 has; then v3's 300 are not there.
  EXPECT_EQ(plain.live_bytes, (std::vector<Bytes>{1100, 1200, 1200, 1200, 1500, 1200}));
}

TEST(KeptGraphs, AGraphThatGoesAsItIsReadSavesNothingLonger) {
  EXPECT_EQ(savedLast(buildGraph(twoOps()).graph), std::vector<OpId>(3, kNone));
}

TEST(KeptGraphs, ASavedTensorThatOutlivesTheStepLastsToItsEnd) {
  Trace trace = keptGraph();
  std::erase_if(trace.events, [](const TraceEvent& event) {
    return (event.kind == TraceEvent::Kind::kRelease && event.id == 1) ||
           (event.kind == TraceEvent::Kind::kFree && event.id == 2);
  });
  trace.ops.push_back({"fourth", 14, 1, true, {0}, {}});
  trace.events.push_back({TraceEvent::Kind::kOpBegin, 3, 19});
  trace.events.push_back({TraceEvent::Kind::kOpEnd, 3, 20});
  EXPECT_EQ(savedLast(buildGraph(trace).graph), (std::vector<OpId>{kNone, kNone, 6, kNone}));
}

// A node without saved tensors makes a gradient of 700 B before they go: beside both, in op 6.
TEST(KeptGraphs, WhatIsLetGoOfBetweenNodesIsThereWhileTheyAllocate) {
  Trace trace = keptGraph();
  trace.blocks.push_back({700, false, false});
  const auto release =
      std::find_if(trace.events.begin(), trace.events.end(), [](const TraceEvent& event) {
        return event.kind == TraceEvent::Kind::kRelease && event.id == 1;
      });
  trace.events.insert(
      release, {{TraceEvent::Kind::kBackwardNode, 0, 17}, {TraceEvent::Kind::kAlloc, 4, 17}});
  const Graph graph = buildGraph(trace).graph;
  ASSERT_EQ(graph.ops.size(), 7u);
  EXPECT_EQ(savedLast(graph), (std::vector<OpId>{kNone, 6, 6, kNone}));
  // 950, x, the gradient, v1 and v2.
  EXPECT_EQ(simulate(graph, keepEverything(graph)).live_bytes[6], 950 + 50 + 700 + 100 + 100);
}

// v2 is dropped after the forward pass, made again for event 2 and dropped; op 3 runs.
Schedule withSecondRun(const std::vector<Step>& then) {
  Schedule schedule{{{Kind::kRun, 0},
                     {Kind::kRun, 1},
                     {Kind::kDrop, 2},
                     {Kind::kRun, 1},
                     {Kind::kRun, 2},
                     {Kind::kDrop, 2},
                     {Kind::kRun, 3}}};
  schedule.steps.insert(schedule.steps.end(), then.begin(), then.end());
  return schedule;
}

TEST(KeptGraphs, WhatIsMadeAgainGoesThoughItIsSaved) {
  const Graph graph = buildGraph(keptGraph()).graph;
  const Schedule schedule =
      withSecondRun({{Kind::kRun, 4}, {Kind::kDrop, 3}, {Kind::kRun, 5}, {Kind::kDrop, 1}});
  ASSERT_EQ(validate(graph, schedule), std::nullopt);
  // 950, x and v1, with v2 in events 2 and, before it, op 1; v3 in op 4.
  EXPECT_EQ(simulate(graph, schedule).live_bytes,
            (std::vector<Bytes>{1100, 1200, 1200, 1100, 1400, 1100}));
}

// v1, now of 30 B and read by event 3 last: op 1 would read it, if anybody asked for the v2 that is
// still saved and was dropped. Nobody would where v2 is kept.
TEST(KeptGraphs, WhatAReplayReadStaysAsLongAsItsResultIsSaved) {
  Graph graph = buildGraph(keptGraph()).graph;
  graph.ops[5].inputs.clear();
  graph.values[1].bytes = 30;
  const Schedule schedule =
      withSecondRun({{Kind::kDrop, 1}, {Kind::kRun, 4}, {Kind::kDrop, 3}, {Kind::kRun, 5}});
  ASSERT_EQ(validate(graph, schedule), std::nullopt);
  // 950 and x, then v1 to the end; v2's 100 up to event 2; v3's 300.
  EXPECT_EQ(simulate(graph, schedule).live_bytes,
            (std::vector<Bytes>{1030, 1130, 1130, 1030, 1330, 1030}));
  // v1 to event 3, v2 to the end.
  EXPECT_EQ(simulate(graph, keepEverything(graph)).live_bytes,
            (std::vector<Bytes>{1030, 1130, 1130, 1130, 1400, 1100}));
}

// A copy on the host serves as its op does: v2 goes to it and comes back from it.
TEST(KeptGraphs, WhatComesBackFromACopyGoesAgain) {
  Trace trace = keptGraph();
  trace.ops[1].rerunnable = false;
  trace.host = {1'000'000'000, 1};
  TraceGraph step = buildGraph(trace);
  addValueCopies(trace, step);
  const OpId reader = step.events_of_use[1].front();
  const OpId restore = step.graph.values[2].producer;
  ASSERT_EQ(step.restores[restore].value, 2);
  const ValueId copy = step.graph.ops[restore].inputs.front();
  Schedule schedule;
  for (const Step& each : keepEverything(step.graph).steps) {
    if (each.kind == Kind::kDrop && each.id == copy) continue;
    const bool reads = each.kind == Kind::kRun && each.id == reader;
    if (reads) schedule.steps.push_back({Kind::kRun, restore});
    schedule.steps.push_back(each);
    if (reads) schedule.steps.push_back({Kind::kDrop, copy});
    if (each.kind == Kind::kRun && each.id == restore) schedule.steps.push_back({Kind::kDrop, 2});
  }
  ASSERT_EQ(validate(step.graph, schedule), std::nullopt);
  const OpId third = step.op_of_trace_op[2];
  EXPECT_EQ(simulate(step.graph, schedule).live_bytes[third], 1400);
  EXPECT_EQ(simulate(step.graph, keepEverything(step.graph)).live_bytes[third], 1500);
}

// Op 0 may not run again: with v2 kept nothing is below 1500, with v2 made again 1400 will do.
TEST(KeptGraphs, PlansMakeAgainWhatWouldStay) {
  Trace trace = keptGraph();
  trace.ops[0].rerunnable = false;
  const Graph graph = buildGraph(trace).graph;
  for (const char* name : {"auto", "greedy"}) {
    const PlanResult result = planner(name).plan(graph, 1400, {});
    EXPECT_TRUE(result.feasible) << name;
    EXPECT_EQ(result.peak_bytes, 1400) << name;
    EXPECT_EQ(result.recompute_ns, 7) << name;  // op 1
  }
  trace.ops[1].rerunnable = false;
  EXPECT_EQ(planner("auto").plan(buildGraph(trace).graph, 1400, {}).peak_bytes, 1500);
}

// Live bytes before each event, as the allocator told them.
std::vector<Bytes> allocatedBefore(const Trace& trace) {
  std::vector<Bytes> before;
  Bytes live = trace.base_bytes;
  for (const TraceEvent& event : trace.events) {
    before.push_back(live);
    const bool allocates = event.kind == TraceEvent::Kind::kAlloc;
    if (!allocates && event.kind != TraceEvent::Kind::kFree) continue;
    const TraceBlock& block = trace.blocks[event.id];
    if (!block.ours) live += allocates ? block.bytes : -block.bytes;
  }
  return before;
}

class RecordedRank : public testing::TestWithParam<const char*> {};

// Steps of pipelines, recorded without a plan. With everything kept the graph has nowhere less than
// the allocator, and where they hold the most not over 1 % more.
TEST_P(RecordedRank, TheGraphHoldsWhatTheAllocatorSaw) {
  const std::string path = std::string(EBBTIDE_TRACES) + "/pipelines/" + GetParam() + ".json.gz";
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file) << path;
  const Trace trace = traceFromJson(
      unpackGzip({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}));
  const std::vector<Bytes> allocated = allocatedBefore(trace);
  const Bytes peak = *std::max_element(allocated.begin(), allocated.end());
  const TraceGraph step = buildGraph(trace);
  const Simulation plain = simulate(step.graph, keepEverything(step.graph));
  EXPECT_GE(plain.peak_bytes, peak);
  EXPECT_LE(plain.peak_bytes, peak + peak / 100);
  for (std::size_t op = 0; op < step.graph.ops.size(); ++op) {
    const Op& at = step.graph.ops[op];
    if (at.backward && at.inputs.empty()) continue;  // what went meanwhile is of the op before
    EXPECT_GE(plain.run_bytes[op], allocated[step.event_of[op]]) << op;
  }
}

INSTANTIATE_TEST_SUITE_P(Pipelines, RecordedRank,
                         testing::Values("1f1b-0", "1f1b-1", "1f1b-2", "1f1b-3", "zero-bubble-0",
                                         "zero-bubble-1"),
                         [](const auto& rank) {
                           std::string name = rank.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == '-'; }, '_');
                           return name;
                         });

TEST(KeptGraphs, GoThroughGraphFiles) {
  const Graph graph = buildGraph(keptGraph()).graph;
  EXPECT_EQ(savedLast(readGraph(toJson(graph), GraphFormat::kGraph, CostModel::kReal)),
            savedLast(graph));
}

TEST(KeptGraphs, WhatContradictsItselfIsNamed) {
  const auto problem = [](OpId saved_last, OpId overwritten_by) {
    Graph graph = buildGraph(keptGraph()).graph;
    graph.values[2].saved_last = saved_last;
    graph.values[2].overwritten_by = overwritten_by;
    try {
      checkGraph(graph);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(problem(5, kNone), "");
  EXPECT_NE(problem(6, kNone).find("names op 6, which does not exist"), std::string::npos);
  EXPECT_NE(problem(0, kNone).find("is saved before it is produced"), std::string::npos);
  EXPECT_NE(problem(5, 4).find("is saved beyond its last read, and overwritten"),
            std::string::npos);
}

}  // namespace
}  // namespace ebbtide::scheduler
