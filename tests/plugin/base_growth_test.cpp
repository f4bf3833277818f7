#include "base_growth.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

constexpr BaseGrowth::Bytes kMiB = 1 << 20;

TEST(BaseGrowth, IsNothingBeforeTheBudgetIsJudged) {
  BaseGrowth growth;
  EXPECT_FALSE(growth.note(3, 900 * kMiB));
  EXPECT_FALSE(growth.found().has_value());
}

// From 300 MiB: 2 MiB are less than 1 %, 3 MiB are news; then 6 MiB and 12 MiB.
TEST(BaseGrowth, IsToldWhenItDoubles) {
  BaseGrowth growth;
  growth.settle(4, 300 * kMiB);
  EXPECT_FALSE(growth.note(5, 302 * kMiB));
  EXPECT_TRUE(growth.note(6, 303 * kMiB));
  EXPECT_FALSE(growth.note(7, 305 * kMiB));
  EXPECT_TRUE(growth.note(8, 306 * kMiB));
  EXPECT_TRUE(growth.note(9, 312 * kMiB));
  growth.settle(10, 312 * kMiB);
  EXPECT_FALSE(growth.note(11, 312 * kMiB));
}

// 9 MiB in 4 steps.
TEST(BaseGrowth, HasARate) {
  BaseGrowth growth;
  growth.settle(4, 10 * kMiB);
  EXPECT_EQ(growth.found()->perStepBytes(), 0);
  growth.note(8, 19 * kMiB);
  EXPECT_EQ(growth.found()->perStepBytes(), 9 * kMiB / 4);
  growth.note(9, 9 * kMiB);
  EXPECT_EQ(growth.found()->perStepBytes(), 0);
}

}  // namespace
}  // namespace ebbtide::plugin
