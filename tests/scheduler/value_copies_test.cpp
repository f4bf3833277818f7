#include "ebbtide/scheduler/value_copies.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "small_traces.hpp"

namespace ebbtide::scheduler {
namespace {

TraceGraph graphWithCopies(const Trace& trace) {
  TraceGraph step = buildGraph(trace);
  addValueCopies(trace, step);
  return step;
}

std::vector<ValueId> restored(const TraceGraph& step) {
  std::vector<ValueId> values;
  for (const auto& restore : step.restores) values.push_back(restore.value);
  return values;
}

// twoOps() with v2 a mask: 100 B, or 4 B as one bit for each of its 25 words of 4 B.
Trace maskedOps() {
  Trace trace = twoOps();
  trace.values[2].encoded_bytes = 4;
  trace.values[2].codec_ns = 3;  // op 1 takes 7
  return trace;
}

TEST(ValueCopies, OfMasksAreEncodedAndDecoded) {
  const auto step = graphWithCopies(maskedOps());
  // op 0, op 1, the decoding op, then the two backward events.
  ASSERT_EQ(step.graph.ops.size(), 5u);
  EXPECT_EQ(restored(step), (std::vector<ValueId>{kNone, kNone, 2, kNone, kNone}));
  EXPECT_EQ(step.restores[2].kind, CopyKind::kBits);
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

TEST(ValueCopies, AreLeftOutWhereTheyDoNotPay) {
  Trace slow = maskedOps();
  slow.values[2].codec_ns = 7;  // no quicker than op 1
  EXPECT_EQ(graphWithCopies(slow).graph.ops.size(), 4u);
  Trace large = maskedOps();
  large.values[2].encoded_bytes = 50;  // half of it
  EXPECT_EQ(graphWithCopies(large).graph.ops.size(), 4u);
  Trace unread = maskedOps();
  unread.use_value[1] = kNone;  // no backward event reads v2
  EXPECT_EQ(graphWithCopies(unread).graph.ops.size(), 4u);
  // What cannot run again is worth any time.
  Trace random = slow;
  random.ops[1].rerunnable = false;
  EXPECT_EQ(graphWithCopies(random).graph.ops.size(), 5u);
}

// v2 is made by an op that writes over v1, as div_ over bernoulli_'s draws: to have it again both
// run, 5 + 7 ns, and what they wrote over is gone.
TEST(ValueCopies, CountTheOpsWhoseResultsWereWrittenOver) {
  Trace trace = maskedOps();
  trace.values[1].overwritten_by = 1;
  trace.values[2].block = 1;
  trace.values[2].previous_epoch = 1;
  trace.use_value = {kNone, 2};
  trace.values[2].codec_ns = 11;
  EXPECT_EQ(graphWithCopies(trace).graph.ops.size(), 5u);
  trace.values[2].codec_ns = 12;
  EXPECT_EQ(graphWithCopies(trace).graph.ops.size(), 4u);
}

// Nothing but v2 can be had again. A third op reads x and needs 100 B of its own while v1 and v2
// wait: 950 fixed + 50 x + 100 v1 + 100 v2 + 100. Decoded later, v2 leaves 4 B there.
TEST(ValueCopies, ArePlanned) {
  using Kind = TraceEvent::Kind;
  Trace trace = maskedOps();
  for (TraceOp& op : trace.ops) op.rerunnable = false;
  trace.ops.push_back({"third", 13, 9, false, {0}, {}});
  trace.blocks.push_back({100, false, false});
  trace.events.insert(
      trace.events.begin() + 8,
      {{Kind::kOpBegin, 2, 6}, {Kind::kAlloc, 3, 6}, {Kind::kFree, 3, 7}, {Kind::kOpEnd, 2, 7}});
  const auto step = graphWithCopies(trace);
  EXPECT_EQ(simulate(step.graph, keepEverything(step.graph)).peak_bytes, 1300);
  const auto result = planner("auto").plan(step.graph, 1204, {});
  ASSERT_EQ(validate(step.graph, result.schedule).value_or(""), "");
  const auto simulated = simulate(step.graph, result.schedule);
  EXPECT_EQ(simulated.peak_bytes, 1204);
  EXPECT_EQ(simulated.recompute_ns, 3);  // decoded once
  EXPECT_EQ(simulated.recomputed_ops, 1);
}

TEST(ValueCopies, OfMasksAreReadAndWrittenInTraces) {
  const Trace trace = maskedOps();
  const Trace again = traceFromJson(toJson(trace));
  EXPECT_EQ(again.values[2].encoded_bytes, 4);
  EXPECT_EQ(again.values[2].codec_ns, 3);
  EXPECT_EQ(again.values[1].encoded_bytes, 0);
  Trace damaged = trace;
  damaged.values[2].encoded_bytes = 101;  // of a block of 100 B
  EXPECT_THROW(graphWithCopies(damaged), std::invalid_argument);
}

// 100 B at 20 B a nanosecond, there and back: 5 ns. Op 0 makes v1 in 5 ns, op 1 makes v2 in 7 ns.
Trace withHost(Trace trace) {
  trace.host = {.bytes_per_second = 20'000'000'000, .least_bytes = 100};
  return trace;
}

TEST(ValueCopies, OnTheHostTakeNoBytesOfTheBudget) {
  const auto step = graphWithCopies(withHost(twoOps()));
  ASSERT_EQ(restored(step),
            (std::vector<ValueId>{kNone, kNone, 2, kNone, kNone}));  // v1: no quicker
  EXPECT_EQ(step.restores[2].kind, CopyKind::kHost);
  EXPECT_EQ(step.graph.ops[2].name, "fetch second");
  EXPECT_EQ(step.graph.ops[2].duration_ns, 5);
  EXPECT_EQ(step.graph.values[4].bytes, 0);
}

TEST(ValueCopies, OnTheHostAreOfLargeValuesAlone) {
  Trace trace = withHost(twoOps());
  trace.host.least_bytes = 101;
  EXPECT_EQ(graphWithCopies(trace).graph.ops.size(), 4u);
}

TEST(ValueCopies, OfTwoKindsTheQuickerOne) {
  const auto bits = graphWithCopies(withHost(maskedOps()));  // 3 ns to decode, 5 ns to fetch
  EXPECT_EQ(bits.restores[2].kind, CopyKind::kBits);
  Trace slow = withHost(maskedOps());
  slow.values[2].codec_ns = 6;
  EXPECT_EQ(graphWithCopies(slow).restores[2].kind, CopyKind::kHost);
}

// Op 0 takes 5 ns as the copy does, and v2 is decoded in less: both go to the host.
TEST(ValueCopies, WhereverPossibleAreOnTheHost) {
  TraceGraph step = buildGraph(withHost(maskedOps()));
  addValueCopies(withHost(maskedOps()), step, std::numeric_limits<double>::infinity());
  ASSERT_EQ(restored(step), (std::vector<ValueId>{kNone, 1, kNone, 2, kNone, kNone}));
  EXPECT_EQ(step.restores[1].kind, CopyKind::kHost);
  EXPECT_EQ(step.restores[3].kind, CopyKind::kHost);
}

// 5 ns are less than twice the 5 ns of op 0, and no less than once.
TEST(ValueCopies, MayBeAllowedToTakeLonger) {
  TraceGraph step = buildGraph(withHost(twoOps()));
  addValueCopies(withHost(twoOps()), step, 2);
  EXPECT_EQ(restored(step), (std::vector<ValueId>{kNone, 1, kNone, 2, kNone, kNone}));
}

// What an op cannot make again is worth a copy whatever the time, as is each of its outputs by
// itself.
TEST(ValueCopies, OfSeveralOutputsAreLeftOutWhereAnotherLargeOneWouldBeLost) {
  Trace trace = withHost(twoOps());
  trace.values.push_back({.producer = 1, .block = 2});  // v3, read by nobody in backward
  trace.ops[1].outputs = {2, 3};
  trace.blocks.push_back({6, false, false});
  using Kind = TraceEvent::Kind;
  const auto made = std::find_if(trace.events.begin(), trace.events.end(), [](const auto& event) {
    return event.kind == Kind::kOpEnd && event.id == 1;
  });
  trace.values[3].block = static_cast<BlockId>(trace.blocks.size()) - 1;
  trace.events.insert(made, {Kind::kAlloc, trace.values[3].block, made->at_ns});
  EXPECT_EQ(graphWithCopies(trace).graph.ops.size(), 5u);  // 6 B are a 16th of 100 B
  trace.blocks.back().bytes = 7;
  EXPECT_EQ(graphWithCopies(trace).graph.ops.size(), 4u);
  trace.ops[1].rerunnable = false;
  EXPECT_EQ(graphWithCopies(trace).graph.ops.size(), 5u);
}

// Two large outputs of one op: a restoring op for each, in their order.
TEST(ValueCopies, OfTwoOutputsOfAnOp) {
  Trace trace = withHost(twoOps());
  trace.ops[1].rerunnable = false;
  trace.values.push_back({.producer = 1, .block = 3});
  trace.ops[1].outputs = {2, 3};
  trace.blocks.push_back({200, false, false});
  trace.use_value[0] = 3;
  using Kind = TraceEvent::Kind;
  const auto made = std::find_if(trace.events.begin(), trace.events.end(), [](const auto& event) {
    return event.kind == Kind::kOpEnd && event.id == 1;
  });
  trace.events.insert(made, {Kind::kAlloc, 3, made->at_ns});
  const auto step = graphWithCopies(trace);
  ASSERT_EQ(restored(step), (std::vector<ValueId>{kNone, kNone, 2, 3, kNone, kNone}));
  EXPECT_EQ(step.graph.ops[3].duration_ns, 10);
  EXPECT_EQ(step.graph.ops[1].outputs.size(), 4u);  // two births, two copies
}

TEST(ValueCopies, OfTheHostAreReadAndWrittenInTraces) {
  const Trace trace = withHost(twoOps());
  const Trace again = traceFromJson(toJson(trace));
  EXPECT_EQ(again.host.bytes_per_second, 20'000'000'000);
  EXPECT_EQ(again.host.least_bytes, 100);
  EXPECT_EQ(traceFromJson(toJson(twoOps())).host.bytes_per_second, 0);
  Trace damaged = trace;
  damaged.host.least_bytes = -1;
  EXPECT_THROW(traceFromJson(toJson(damaged)), std::invalid_argument);
}

}  // namespace
}  // namespace ebbtide::scheduler
