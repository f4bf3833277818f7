#include "ebbtide/scheduler/budget_margins.hpp"

#include <gtest/gtest.h>

#include <random>

namespace ebbtide::scheduler {
namespace {

constexpr Bytes kMiB = 1 << 20;
constexpr BudgetMargins kHost = {
    .headroom_share = 0.005, .least_headroom_bytes = kMiB, .unplanned_bytes = 3 * kMiB};

TEST(BudgetMargins, LeaveAShareAndAtLeastSome) {
  EXPECT_EQ(kHost.headroomBytes(100 * kMiB), kMiB);       // 0.5 MiB is less
  EXPECT_EQ(kHost.headroomBytes(1000 * kMiB), 5 * kMiB);  // 0.5 %
  EXPECT_EQ(kHost.capBytes(100 * kMiB), 96 * kMiB);       // 1 and 3 MiB
  EXPECT_EQ(kHost.capBytes(kMiB), -3 * kMiB);
}

TEST(BudgetMargins, NameABudgetWithSomeToSpareInWholeMiB) {
  EXPECT_EQ(kHost.namedBudgetBytes(0), 0);                  // not known
  EXPECT_EQ(kHost.namedBudgetBytes(10 * kMiB), 12 * kMiB);  // at least 2 MiB more
  EXPECT_EQ(kHost.namedBudgetBytes(10 * kMiB + 1), 13 * kMiB);
  EXPECT_EQ(kHost.namedBudgetBytes(1000 * kMiB), 1030 * kMiB);  // 3 %
}

// One that is smaller by two bytes leaves no more: of these one is rounding.
TEST(BudgetMargins, FindTheSmallestBudgetWithRoom) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    const Bytes bytes = std::uniform_int_distribution<Bytes>(0, 1 << (10 + round % 21))(random);
    const BudgetMargins margins = {
        .headroom_share = 0.001 * static_cast<double>(round % 50),
        .least_headroom_bytes = std::uniform_int_distribution<Bytes>(0, 1 << 20)(random)};
    const Bytes budget = margins.budgetWithRoomFor(bytes);
    EXPECT_GE(margins.capBytes(budget), bytes);
    EXPECT_LE(margins.capBytes(budget - 2), bytes) << "of " << budget;
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
