#include "ebbtide/scheduler/op_durations.hpp"

#include <gtest/gtest.h>

#include "small_traces.hpp"

namespace ebbtide::scheduler {
namespace {

// twoOps() with a third op: x (50 B) -> 100 B is one kind, 100 B -> 100 B another.
Trace threeOps() {
  Trace trace = twoOps();
  trace.duration_ns = 40;
  trace.ops[1].name = trace.ops[0].name;
  trace.blocks.push_back({100, false, false});
  trace.values.push_back({2, 3, kNone, kNone, false});
  trace.ops.push_back({"first", 13, 9, true, {2}, {3}});
  return trace;
}

TEST(OpDurations, OpsOfOneKindTakeTheLeastTimeOfAny) {
  OpDurations durations;
  EXPECT_TRUE(durations.empty());
  Trace trace = threeOps();  // 5 ns from 50 B; 7 ns and 9 ns from 100 B
  durations.merge(trace);
  EXPECT_FALSE(durations.empty());
  EXPECT_EQ(trace.ops[0].duration_ns, 5);
  EXPECT_EQ(trace.ops[1].duration_ns, 7);
  EXPECT_EQ(trace.ops[2].duration_ns, 7);
}

TEST(OpDurations, AnotherNameIsAnotherKind) {
  Trace trace = threeOps();
  trace.ops[2].name = "other";
  OpDurations().merge(trace);
  EXPECT_EQ(trace.ops[1].duration_ns, 7);
  EXPECT_EQ(trace.ops[2].duration_ns, 9);
}

TEST(OpDurations, LaterStepsLowerThemAndTheStep) {
  OpDurations durations;
  Trace slow = threeOps();
  durations.merge(slow);
  Trace quick = threeOps();
  quick.ops[0].duration_ns = 6;  // 5 was seen
  quick.ops[2].duration_ns = 3;  // the least of its kind
  quick.duration_ns = 30;
  durations.merge(quick);
  EXPECT_EQ(quick.ops[0].duration_ns, 5);
  EXPECT_EQ(quick.ops[1].duration_ns, 3);
  EXPECT_EQ(quick.duration_ns, 30);
  Trace slower = threeOps();
  durations.merge(slower);
  EXPECT_EQ(slower.duration_ns, 30);
}

}  // namespace
}  // namespace ebbtide::scheduler
