#include "model/late_inputs.hpp"

#include <gtest/gtest.h>

namespace ebbtide::scheduler {
namespace {

TraceValue in(BlockId block) {
  TraceValue value;
  value.block = block;
  return value;
}

// Values 0 to 3 in blocks 0 to 3: there from the start, allocated in mid-step, made by a replay of
// ours, and a parameter that is gathered in mid-step.
Trace fourInputs() {
  Trace trace;
  trace.blocks = {{10, true, false}, {20, false, false}, {30, false, true}, {40, false, false}};
  for (BlockId block = 0; block < 4; ++block) trace.values.push_back(in(block));
  trace.values[3].parameter = true;
  return trace;
}

TEST(LateInputs, AreFirstInBlocksThatAreAllocatedInMidStep) {
  const Trace trace = fourInputs();
  const LateInputs inputs(trace, {true, true, true, true});
  EXPECT_EQ(inputs.in(0), kNone);
  EXPECT_EQ(inputs.in(1), 1);
  EXPECT_EQ(inputs.in(2), kNone);
  EXPECT_EQ(inputs.in(3), kNone);
  // Of no block that is left to the program.
  EXPECT_EQ(LateInputs(trace, {true, false, true, true}).in(1), kNone);
}

// Block 0 holds value 0, which op 0 reads, then value 1, which op 1 reads; op 2 is the first one
// that was seen to come after the write.
Trace writtenUnseen() {
  Trace trace;
  trace.blocks = {{10, true, false}};
  trace.values = {in(0), in(0)};
  trace.values[0].overwritten_by = 2;
  trace.ops.resize(3);
  trace.ops[0].inputs = {0};
  trace.ops[1].inputs = {1};
  return trace;
}

TEST(LateInputs, AreWrittenBeforeTheOpThatReadsThemFirst) {
  const Trace trace = writtenUnseen();
  const LateInputs inputs(trace, {true});
  EXPECT_TRUE(inputs.writtenBefore(0).empty());
  EXPECT_TRUE(inputs.writtenBefore(2).empty());
  ASSERT_EQ(inputs.writtenBefore(1).size(), 1u);
  EXPECT_EQ(inputs.writtenBefore(1)[0].value, 1);
  EXPECT_EQ(inputs.writtenBefore(1)[0].before, 0);
}

TEST(LateInputs, AreNoneWhereTheValueBeforeIsStillRead) {
  Trace trace = writtenUnseen();
  trace.ops[1].inputs = {0, 1};
  const LateInputs inputs(trace, {true});
  for (OpId op = 0; op < 3; ++op) EXPECT_TRUE(inputs.writtenBefore(op).empty()) << op;
}

TEST(LateInputs, ABlockIsAwaitedUntilItIsTakenOrFreed) {
  LateInputs inputs(fourInputs(), {true, true, true, true});
  EXPECT_FALSE(inputs.awaits());
  inputs.await(1);
  inputs.await(3);
  EXPECT_TRUE(inputs.forget(1));
  EXPECT_FALSE(inputs.forget(1));
  EXPECT_TRUE(inputs.awaits());
  EXPECT_EQ(inputs.takeAwaited(), (std::vector<BlockId>{3}));
  EXPECT_FALSE(inputs.awaits());
}

TEST(LateInputs, KeepWhereTheyBegan) {
  LateInputs inputs(writtenUnseen(), {true});
  EXPECT_EQ(inputs.bornAt(1), kNone);
  inputs.begin(0, 3);
  inputs.beginOver({1, 0}, 5);
  EXPECT_EQ(inputs.bornAt(0), 3);
  EXPECT_EQ(inputs.takesOver(0), kNone);
  EXPECT_EQ(inputs.bornAt(1), 5);
  EXPECT_EQ(inputs.takesOver(1), 0);
}

}  // namespace
}  // namespace ebbtide::scheduler
