#include "ebbtide/scheduler/encoded_values.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "small_traces.hpp"

namespace ebbtide::scheduler {
namespace {

TraceGraph encodedGraph(const Trace& trace) {
  TraceGraph step = buildGraph(trace);
  addEncodedValues(trace, step);
  return step;
}

// twoOps() with v2 a mask: 100 B, or 4 B as one bit for each of its 25 words of 4 B.
Trace maskedOps() {
  Trace trace = twoOps();
  trace.values[2].encoded_bytes = 4;
  trace.values[2].codec_ns = 3;  // op 1 takes 7
  return trace;
}

TEST(EncodedValues, AddACopyAndAnOpThatDecodesIt) {
  const auto step = encodedGraph(maskedOps());
  // op 0, op 1, the decoding op, then the two backward events.
  ASSERT_EQ(step.graph.ops.size(), 5u);
  EXPECT_EQ(step.decodes, (std::vector<ValueId>{kNone, kNone, 2, kNone, kNone}));
  EXPECT_EQ(step.trace_op_of, (std::vector<OpId>{0, 1, kNone, kNone, kNone}));
  EXPECT_EQ(step.op_of_trace_op, (std::vector<OpId>{0, 1}));
  EXPECT_EQ(step.events_of_use, (std::vector<std::vector<OpId>>{{4}, {3}}));
  ASSERT_EQ(step.graph.values.size(), 5u);
  const Op& decode = step.graph.ops[2];
  EXPECT_EQ(decode.name, "decode second");
  EXPECT_TRUE(decode.rerunnable);
  EXPECT_EQ(decode.duration_ns, 3);
  EXPECT_EQ(decode.inputs, (std::vector<ValueId>{4}));
  EXPECT_EQ(decode.outputs, (std::vector<ValueId>{2}));
  EXPECT_EQ(step.graph.values[4].bytes, 4);
  EXPECT_EQ(step.graph.values[2].previous_epoch, 3);
  EXPECT_FALSE(step.graph.ops[1].rerunnable);  // decoding takes its place
  // Nothing dropped: 950 fixed, 50 x, 100 v1, 100 v2, and the 4 B while op 1 runs.
  EXPECT_EQ(simulate(step.graph, keepEverything(step.graph)).peak_bytes, 1204);
}

TEST(EncodedValues, AreLeftOutWhereTheyDoNotPay) {
  Trace slow = maskedOps();
  slow.values[2].codec_ns = 7;  // no quicker than op 1
  EXPECT_EQ(encodedGraph(slow).graph.ops.size(), 4u);
  Trace large = maskedOps();
  large.values[2].encoded_bytes = 50;  // half of it
  EXPECT_EQ(encodedGraph(large).graph.ops.size(), 4u);
  Trace unread = maskedOps();
  unread.use_value[1] = kNone;  // no backward event reads v2
  EXPECT_EQ(encodedGraph(unread).graph.ops.size(), 4u);
  // What cannot run again is worth any time.
  Trace random = slow;
  random.ops[1].rerunnable = false;
  EXPECT_EQ(encodedGraph(random).graph.ops.size(), 5u);
}

// v2 is made by an op that writes over v1, as div_ over bernoulli_'s draws: to have it again both
// run, 5 + 7 ns, and what they wrote over is gone.
TEST(EncodedValues, CountTheOpsWhoseResultsWereWrittenOver) {
  Trace trace = maskedOps();
  trace.values[1].overwritten_by = 1;
  trace.values[2].block = 1;
  trace.values[2].previous_epoch = 1;
  trace.use_value = {kNone, 2};
  trace.values[2].codec_ns = 11;
  EXPECT_EQ(encodedGraph(trace).graph.ops.size(), 5u);
  trace.values[2].codec_ns = 12;
  EXPECT_EQ(encodedGraph(trace).graph.ops.size(), 4u);
}

// Nothing but v2 can be had again. A third op reads x and needs 100 B of its own while v1 and v2
// wait: 950 fixed + 50 x + 100 v1 + 100 v2 + 100. Decoded later, v2 leaves 4 B there.
TEST(EncodedValues, ArePlanned) {
  using Kind = TraceEvent::Kind;
  Trace trace = maskedOps();
  for (TraceOp& op : trace.ops) op.rerunnable = false;
  trace.ops.push_back({"third", 13, 9, false, {0}, {}});
  trace.blocks.push_back({100, false, false});
  trace.events.insert(
      trace.events.begin() + 8,
      {{Kind::kOpBegin, 2, 6}, {Kind::kAlloc, 3, 6}, {Kind::kFree, 3, 7}, {Kind::kOpEnd, 2, 7}});
  const auto step = encodedGraph(trace);
  EXPECT_EQ(simulate(step.graph, keepEverything(step.graph)).peak_bytes, 1300);
  const auto result = planner("auto").plan(step.graph, 1204, {});
  ASSERT_EQ(validate(step.graph, result.schedule).value_or(""), "");
  const auto simulated = simulate(step.graph, result.schedule);
  EXPECT_EQ(simulated.peak_bytes, 1204);
  EXPECT_EQ(simulated.recompute_ns, 3);  // decoded once
  EXPECT_EQ(simulated.recomputed_ops, 1);
}

TEST(EncodedValues, AreReadAndWrittenInTraces) {
  const Trace trace = maskedOps();
  const Trace again = traceFromJson(toJson(trace));
  EXPECT_EQ(again.values[2].encoded_bytes, 4);
  EXPECT_EQ(again.values[2].codec_ns, 3);
  EXPECT_EQ(again.values[1].encoded_bytes, 0);
  Trace damaged = trace;
  damaged.values[2].encoded_bytes = 101;  // of a block of 100 B
  EXPECT_THROW(encodedGraph(damaged), std::invalid_argument);
}

}  // namespace
}  // namespace ebbtide::scheduler
