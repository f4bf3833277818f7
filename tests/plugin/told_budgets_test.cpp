#include "runtime/budget/told_budgets.hpp"

#include "judged_budget.hpp"

namespace ebbtide::plugin {
namespace {

class ToldBudgetsTest : public test::JudgedBudgetTest {
 protected:
  // Two steps that should need 200 MiB have held so much.
  void hold(std::int64_t budget) {
    const auto step = [&] {
      floor_.noteBegin(100 * kMib, budget, 0);
      floor_.noteNeed(200 * kMib, /*alone=*/true, 100 * kMib);
      floor_.noteStep({.violations = 0, .mapped_peak_bytes = budget, .by = {}});
    };
    for (int i = 0; i < 3; ++i) step();
  }
};

// AdamW's state comes with the first update: a budget of the first step's need would be refused.
TEST_F(ToldBudgetsTest, NoneIsTheSmallestUntilTheBaseIsSettled) {
  floor_.noteBegin(100 * kMib, 400 * kMib, 0);
  floor_.noteNeed(200 * kMib, /*alone=*/true, 100 * kMib);
  floor_.noteBegin(300 * kMib, 400 * kMib, 0);
  EXPECT_EQ(told_.smallestBytes(), 0);
  EXPECT_EQ(told_.smallestWithoutMarginBytes(), 0);
  EXPECT_EQ(told_.halfBytes(200 * kMib, 50 * kMib), 0);
  EXPECT_GT(told_.neededBytes(), 200 * kMib);
  floor_.noteNeed(400 * kMib, /*alone=*/true, 300 * kMib);
  floor_.noteBegin(300 * kMib, 400 * kMib, 0);
  EXPECT_EQ(told_.smallestBytes(), 412 * kMib);  // 3 % more
  EXPECT_EQ(told_.smallestWithoutMarginBytes(), 400 * kMib);
}

// Each step begins with 10 % more: the fourth settles it.
TEST_F(ToldBudgetsTest, ABaseThatGrowsOnIsSettledAtLast) {
  floor_.noteNeed(200 * kMib, /*alone=*/true, 100 * kMib);
  for (const std::int64_t base : {100, 110, 121}) {
    floor_.noteBegin(base * kMib, 400 * kMib, 0);
    EXPECT_EQ(told_.smallestBytes(), 0) << base;
  }
  floor_.noteBegin(133 * kMib, 400 * kMib, 0);
  EXPECT_EQ(told_.smallestBytes(), 206 * kMib);
}

TEST_F(ToldBudgetsTest, AnotherBudgetLeavesItKnownAnotherProgramDoesNot) {
  floor_.noteNeed(200 * kMib, /*alone=*/true, 100 * kMib);
  for (int i = 0; i < 2; ++i) floor_.noteBegin(100 * kMib, 400 * kMib, 0);
  floor_.beginAnew(0);
  EXPECT_EQ(told_.smallestBytes(), 206 * kMib);
  floor_.beginOther(0);
  floor_.noteNeed(20 * kMib, /*alone=*/true, 10 * kMib);
  EXPECT_EQ(told_.smallestBytes(), 0);
}

// What was held is enough with and without a margin.
TEST_F(ToldBudgetsTest, WithoutTheMarginItIsNeverMore) {
  hold(150 * kMib);
  EXPECT_EQ(told_.heldBytes(), 150 * kMib);
  EXPECT_EQ(told_.smallestBytes(), 150 * kMib);
  EXPECT_EQ(told_.smallestWithoutMarginBytes(), 150 * kMib);
}

// 10 MiB more live by now: 210 are needed, and 6.3 more are told, in whole MiB.
TEST_F(ToldBudgetsTest, WhatHasGrownIsInBoth) {
  floor_.noteNeed(200 * kMib, /*alone=*/true, 100 * kMib);
  floor_.noteBaseSettled();
  const Held held = guard_.hold();
  grown_.settle(held, 4, 100 * kMib, 100 * kMib);
  for (const std::int64_t step : {5, 6}) grown_.note(held, step, 110 * kMib);
  grown_.update(held);
  EXPECT_EQ(told_.smallestWithoutMarginBytes(), 210 * kMib);
  EXPECT_EQ(told_.smallestBytes(), 217 * kMib);
}

}  // namespace
}  // namespace ebbtide::plugin
