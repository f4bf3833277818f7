#include "runtime/budget/base_growth.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

constexpr BaseGrowth::Bytes kMiB = 1 << 20;

TEST(BaseGrowth, IsNothingBeforeTheBudgetIsJudged) {
  BaseGrowth growth;
  EXPECT_FALSE(growth.note(3, 900 * kMiB));
  EXPECT_FALSE(growth.found().has_value());
}

// From 300 MiB: 2 MiB are less than 1 %, 3 MiB are news; then 6 MiB and 12 MiB. Each a step later,
// when another has begun with as much.
TEST(BaseGrowth, IsToldWhenItDoubles) {
  BaseGrowth growth;
  growth.settle(4, 300 * kMiB);
  EXPECT_FALSE(growth.note(5, 302 * kMiB));
  EXPECT_FALSE(growth.note(6, 303 * kMiB));
  EXPECT_TRUE(growth.note(7, 305 * kMiB));
  EXPECT_FALSE(growth.note(8, 306 * kMiB));
  EXPECT_TRUE(growth.note(9, 312 * kMiB));
  EXPECT_TRUE(growth.note(10, 312 * kMiB));
  growth.settle(11, 312 * kMiB);
  EXPECT_FALSE(growth.note(12, 312 * kMiB));
}

// 40 MiB that one step begins with and the next one does not.
TEST(BaseGrowth, IsNotALargeBatch) {
  BaseGrowth growth;
  growth.settle(4, 300 * kMiB);
  EXPECT_FALSE(growth.note(5, 340 * kMiB));
  EXPECT_FALSE(growth.found()->isGrowth());
  EXPECT_FALSE(growth.note(6, 300 * kMiB));
  EXPECT_FALSE(growth.note(7, 340 * kMiB));
  EXPECT_FALSE(growth.found()->isGrowth());
}

// 2 MiB a step: 10, 12, 14, 16 MiB; 14 MiB, two steps after the first, are sure.
TEST(BaseGrowth, HasARate) {
  BaseGrowth growth;
  growth.settle(4, 10 * kMiB);
  EXPECT_EQ(growth.found()->perStepBytes(), 0);
  growth.note(5, 12 * kMiB);
  growth.note(6, 14 * kMiB);
  growth.note(7, 16 * kMiB);
  EXPECT_EQ(growth.found()->step, 6);
  EXPECT_EQ(growth.found()->grownBytes(), 4 * kMiB);
  EXPECT_EQ(growth.found()->perStepBytes(), 2 * kMiB);
  for (int step = 8; step < 11; ++step) growth.note(step, 9 * kMiB);
  EXPECT_EQ(growth.found()->perStepBytes(), 0);
}

// Of 10 MiB, where it was judged: 12 MiB are 2 more than the most before, 13 MiB then 1 more, 12.5
// none. 2 MiB are the most of the last four; two steps later 1 MiB is. A step's own begin counts.
TEST(BaseGrowth, RisesAtOnce) {
  BaseGrowth growth;
  EXPECT_EQ(growth.riseBytes(), 0);
  growth.settle(4, 10 * kMiB);
  EXPECT_EQ(growth.riseBytes(), 0);
  growth.note(5, 12 * kMiB);
  EXPECT_EQ(growth.riseBytes(), 2 * kMiB);
  growth.note(6, 13 * kMiB);
  growth.note(7, 12 * kMiB + kMiB / 2);
  growth.note(8, 10 * kMiB);
  EXPECT_EQ(growth.riseBytes(), 2 * kMiB);
  EXPECT_EQ(growth.overBytes(), 0);
  growth.note(9, 10 * kMiB + 3);
  EXPECT_EQ(growth.overBytes(), 3);
  EXPECT_EQ(growth.riseBytes(), kMiB);
  growth.settle(10, 300 * kMiB);
  growth.note(11, 302 * kMiB);  // less than 1 %
  EXPECT_EQ(growth.riseBytes(), 0);
}

// Three passes of an update begin with 14 MiB, and the first one of the next with 8.
TEST(BaseGrowth, IsNotHiddenByOneStep) {
  BaseGrowth growth;
  growth.settle(4, 10 * kMiB);
  for (int step = 5; step < 8; ++step) growth.note(step, 14 * kMiB);
  growth.note(8, 8 * kMiB);
  EXPECT_EQ(growth.found()->grownBytes(), 4 * kMiB);
  growth.note(9, 14 * kMiB);
  EXPECT_EQ(growth.found()->grownBytes(), 4 * kMiB);
}

}  // namespace
}  // namespace ebbtide::plugin
