#include "runtime/steps/largest_step.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kMib = 1 << 20, kBase = 100;

TEST(LargestStep, OneThatWasRecordedLeavesNothingToRecord) {
  LargestStep steps;
  EXPECT_EQ(steps.note(1000 * kMib, kBase, /*recorded=*/true), 0);
  EXPECT_EQ(steps.unrecordedBytes(), 0);
  EXPECT_EQ(steps.note(1010 * kMib, kBase, /*recorded=*/false), 0);  // within 1 %
  EXPECT_EQ(steps.unrecordedBytes(), 10 * kMib);
}

TEST(LargestStep, ALargerOneThatWasNotRecordedIsMissedUntilOneIs) {
  LargestStep steps;
  steps.note(1000 * kMib, kBase, /*recorded=*/true);
  EXPECT_EQ(steps.note(1500 * kMib, kBase + 7, /*recorded=*/false), 2);
  EXPECT_EQ(steps.note(1200 * kMib, kBase, /*recorded=*/true), 0);
  EXPECT_EQ(steps.unrecordedBytes(), 300 * kMib);  // 1500 - 1200
  EXPECT_EQ(steps.baseBytes(), kBase + 7);
  steps.note(1500 * kMib - 1, kBase, /*recorded=*/true);
  EXPECT_EQ(steps.unrecordedBytes(), 0);  // less than 1 MiB
}

// A step that is never recorded (one with an evaluation, say) costs 2 + 4 + ... + 256 = 510 steps.
TEST(LargestStep, OneThatIsNeverRecordedIsWaitedForEightTimes) {
  LargestStep steps;
  steps.note(1000, kBase, /*recorded=*/true);
  int all = 0;
  for (int turn = 0; turn < 20; ++turn) {
    all += steps.note(2000, kBase, /*recorded=*/false);
    EXPECT_EQ(steps.note(1000, kBase, /*recorded=*/false), 0);
    steps.note(1000, kBase, /*recorded=*/true);
  }
  EXPECT_EQ(all, 510);
  steps.note(2000, kBase, /*recorded=*/true);
  EXPECT_EQ(steps.note(3000, kBase, /*recorded=*/false), 2);
}

TEST(LargestStep, WhereNoneWasRecordedNothingIsEstimated) {
  LargestStep steps;
  EXPECT_EQ(steps.note(2000, kBase, /*recorded=*/false), 2);
  EXPECT_EQ(steps.unrecordedBytes(), 0);
}

}  // namespace
}  // namespace ebbtide::plugin
