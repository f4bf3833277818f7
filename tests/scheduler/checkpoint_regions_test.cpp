// What a checkpoint's region was given lives on while a node computes the region again.
#include <gtest/gtest.h>

#include <algorithm>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "small_traces.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = TraceEvent::Kind;

// twoOps() whose last node unpacks v1 (100 B) and then, in a region, allocates 60 B that are saved
// and read. Before those are a value the node of that name is noted; another 60 B come after the
// node has ended.
Trace withRegion(const char* mark) {
  Trace trace = twoOps();
  trace.nodes = {"MulBackward0", mark};
  for (const BlockId block : {3, 4}) {
    trace.blocks.push_back({60, false, false});
    trace.values.push_back({kNone, block, kNone, kNone, false});
    trace.use_value.push_back(block);
  }
  trace.events.insert(trace.events.begin() + 14, {{Kind::kAlloc, 3, 11},
                                                  {Kind::kBackwardNode, 1, 11},
                                                  {Kind::kUnpack, 2, 11},
                                                  {Kind::kRelease, 2, 11},
                                                  {Kind::kFree, 3, 11}});
  trace.events.insert(trace.events.end(), {{Kind::kBackwardNode, 0, 13},
                                           {Kind::kAlloc, 4, 13},
                                           {Kind::kUnpack, 3, 14},
                                           {Kind::kRelease, 3, 14},
                                           {Kind::kFree, 4, 14}});
  return trace;
}

// Of the op that stands for a late input.
Bytes fixedWhere(const Graph& graph, ValueId is_made) {
  const auto made = std::find_if(graph.ops.begin(), graph.ops.end(), [is_made](const Op& op) {
    return op.outputs == std::vector<ValueId>{is_made};
  });
  return made != graph.ops.end() ? made->fixed_bytes : -1;
}

TEST(CheckpointRegions, HoldWhatTheyWereGivenUntilTheirNodeEnds) {
  const Graph region = buildGraph(withRegion(kCheckpointNode)).graph;
  const Graph node = buildGraph(withRegion("AddBackward0")).graph;
  ASSERT_GE(fixedWhere(node, 3), 0);
  EXPECT_EQ(fixedWhere(region, 3), fixedWhere(node, 3) + 100);
  EXPECT_EQ(fixedWhere(region, 4), fixedWhere(node, 4));
}

}  // namespace
}  // namespace ebbtide::scheduler
