#include "ebbtide/scheduler/activation_shares.hpp"

#include <gtest/gtest.h>

#include "small_traces.hpp"

namespace ebbtide::scheduler {
namespace {

using Kept = std::map<std::string, Bytes>;

ActivationShares sharesOf(const Trace& trace) {
  return activationShares(trace, buildGraph(trace));
}

// v1 and v2, 100 B each, are saved and let go of at once; x was there before the step.
TEST(ActivationShares, OfOpsThatMayRunAgain) {
  const ActivationShares shares = sharesOf(twoOps());
  EXPECT_EQ(shares.recomputable_bytes, 200);
  EXPECT_EQ(shares.kept_bytes, Kept());
}

TEST(ActivationShares, SayWhyAnOpIsKept) {
  Trace trace = twoOps();
  trace.ops[0].rerunnable = false;
  trace.ops[0].kept_because = "a collective";
  const ActivationShares shares = sharesOf(trace);
  EXPECT_EQ(shares.recomputable_bytes, 100);
  EXPECT_EQ(shares.kept_bytes, (Kept{{"a collective", 100}}));
}

TEST(ActivationShares, CountAMaskThatIsDecoded) {
  Trace trace = twoOps();
  trace.ops[1].rerunnable = false;
  trace.values[2].encoded_bytes = 4;
  EXPECT_EQ(sharesOf(trace).recomputable_bytes, 200);
}

// Without its last reference v1 is the program's until its block is freed, in the last event, which
// reads it: to drop it earlier would save nothing.
TEST(ActivationShares, OfWhatTheProgramHolds) {
  Trace trace = twoOps();
  std::erase_if(trace.events, [](const TraceEvent& event) {
    return event.kind == TraceEvent::Kind::kLastReference && event.id == 1;
  });
  const ActivationShares shares = sharesOf(trace);
  EXPECT_EQ(shares.recomputable_bytes, 100);
  EXPECT_EQ(shares.kept_bytes, (Kept{{"held by the program", 100}}));
}

// v1 is written over while its use lives, v2's use is never unpacked: both stay where they are, and
// whole blocks are counted.
TEST(ActivationShares, OfBlocksThatAreLeftToTheProgram) {
  Trace trace = twoOps();
  trace.values[1].overwritten_by = 1;
  std::erase_if(trace.events, [](const TraceEvent& event) {
    return event.kind == TraceEvent::Kind::kUnpack && event.id == 1;
  });
  const ActivationShares shares = sharesOf(trace);
  EXPECT_EQ(shares.recomputable_bytes, 0);
  EXPECT_EQ(shares.kept_bytes,
            (Kept{{"saved, but not read in this step", 100}, {"written over while in use", 100}}));
}

// 200 B are told apart; of 250 that the step has grown by, 50 are no saved value's.
TEST(ActivationShares, AddUp) {
  ActivationShares shares = sharesOf(twoOps());
  shares.addRestOf(150);
  EXPECT_EQ(shares.kept_bytes, Kept());
  shares.addRestOf(250);
  EXPECT_EQ(shares.kept_bytes, (Kept{{"no saved value of its own", 50}}));
}

// Made by no recorded op, and not there before the step.
TEST(ActivationShares, OfWhatWasMadeUnseen) {
  Trace trace = twoOps();
  trace.blocks[0].before_step = false;
  trace.use_value.push_back(0);
  trace.events.insert(trace.events.begin(), {TraceEvent::Kind::kAlloc, 0, 0});
  trace.events.insert(trace.events.begin() + 8, {TraceEvent::Kind::kLastReference, 0, 6});
  trace.events.push_back({TraceEvent::Kind::kBackwardNode, 0, 13});
  trace.events.push_back({TraceEvent::Kind::kUnpack, 2, 13});
  trace.events.push_back({TraceEvent::Kind::kRelease, 2, 13});
  trace.events.push_back({TraceEvent::Kind::kFree, 0, 13});
  const ActivationShares shares = sharesOf(trace);
  EXPECT_EQ(shares.recomputable_bytes, 200);
  ASSERT_EQ(shares.kept_bytes.size(), 1u);
  EXPECT_EQ(shares.kept_bytes.begin()->second, 50);
}

}  // namespace
}  // namespace ebbtide::scheduler
