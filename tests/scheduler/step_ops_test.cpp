#include "model/step_ops.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace ebbtide::scheduler {
namespace {

Op forwardOp() {
  return {.name = "mm"};
}

Op backwardEvent() {
  return {.name = "backward", .backward = true};
}

void begin(StepOps& ops, Op op, OpId trace_op = kNone) {
  ops.end();
  ops.begin(std::move(op), trace_op);
}

TEST(StepOps, AnOpHasTheMostThatLivesUntilTheNextOne) {
  StepOps ops(100);
  EXPECT_EQ(ops.last(), kNone);
  ops.addFixed(100);
  ops.addFixed(-80);
  begin(ops, forwardOp(), 0);
  ops.addFixed(40);
  ops.addFixed(-10);
  begin(ops, forwardOp(), 1);
  EXPECT_EQ(ops.last(), 1);
  EXPECT_EQ(ops.fixedBytes(), 150);
  const StepOps::Made made = ops.take();
  ASSERT_EQ(made.ops.size(), 2u);
  EXPECT_EQ(made.trace_op_of, (std::vector<OpId>{0, 1}));
  // 100 + 100 before the first op are its own; it begins at 120 and takes 40 more.
  EXPECT_EQ(made.ops[0].fixed_bytes, 200);
  EXPECT_EQ(made.ops[0].fixed_at_start, 120);
  EXPECT_EQ(made.ops[0].workspace_bytes, 40);
  EXPECT_EQ(made.ops[1].fixed_bytes, 150);
  EXPECT_EQ(made.ops[1].fixed_at_start, 150);
  EXPECT_EQ(made.ops[1].workspace_bytes, 0);
}

// An event of 120 bytes begins with the trace's event 4, at 5 ns, and is left with event 6; the
// next op begins with event 8, at 12 ns. Meanwhile `bytes` come.
StepOps::Made withGap(Bytes bytes) {
  StepOps ops(100);
  ops.reach(4, 5);
  begin(ops, backwardEvent());
  ops.addFixed(20);
  ops.addFixed(-20);
  ops.reach(6, 9);
  ops.beginGap();
  EXPECT_FALSE(ops.gapGrew());
  ops.addFixed(bytes);
  EXPECT_TRUE(ops.gapGrew());
  ops.reach(8, 12);
  begin(ops, forwardOp(), 0);
  return ops.take();
}

TEST(StepOps, AGapIsAnOpWhereItHoldsMoreThanTheEvent) {
  const StepOps::Made made = withGap(30);
  ASSERT_EQ(made.ops.size(), 3u);
  EXPECT_EQ(made.ops[0].fixed_bytes, 120);
  EXPECT_EQ(made.ops[0].workspace_bytes, 0);  // replays take none of an event's
  EXPECT_EQ(made.ops[0].duration_ns, 7);      // from 5 to 12: until the next op begins
  EXPECT_TRUE(made.ops[1].backward);
  EXPECT_EQ(made.ops[1].fixed_bytes, 130);
  EXPECT_EQ(made.event_of, (std::vector<std::size_t>{4, 6, 8}));
  EXPECT_EQ(made.trace_op_of, (std::vector<OpId>{kNone, kNone, 0}));
}

TEST(StepOps, AGapThatHoldsNoMoreIsTheEvents) {
  const StepOps::Made made = withGap(20);
  ASSERT_EQ(made.ops.size(), 2u);
  EXPECT_EQ(made.ops[0].fixed_bytes, 120);
  EXPECT_EQ(made.event_of, (std::vector<std::size_t>{4, 8}));
}

// Of two nodes that read nothing one after the other: 110, then 130.
TEST(StepOps, AnotherGapEndsTheOneBefore) {
  StepOps ops(100);
  begin(ops, backwardEvent());
  ops.beginGap();
  ops.addFixed(10);
  ops.beginGap();
  EXPECT_EQ(ops.last(), 1);
  EXPECT_FALSE(ops.gapGrew());
  ops.addFixed(20);
  ops.end();
  EXPECT_EQ(ops.last(), 2);
  const StepOps::Made made = ops.take();
  EXPECT_EQ(made.ops[1].fixed_bytes, 110);
  EXPECT_EQ(made.ops[2].fixed_bytes, 130);
}

TEST(StepOps, AnEventReadsEachValueOnce) {
  StepOps ops(0);
  begin(ops, backwardEvent());
  for (const ValueId value : {3, 1, 3}) ops.read(value);
  EXPECT_EQ(ops.take().ops[0].inputs, (std::vector<ValueId>{3, 1}));
}

}  // namespace
}  // namespace ebbtide::scheduler
