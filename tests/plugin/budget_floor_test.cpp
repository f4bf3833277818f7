#include "budget_floor.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

using Verdict = BudgetFloor::Verdict;

constexpr BudgetFloor::Bytes kBudget = 1000;

// The first two recorded steps decide; parts of one from the fourth step on.
TEST(BudgetFloor, TakesTwoSteps) {
  BudgetFloor floor;
  EXPECT_TRUE(floor.takesStep(1, false));
  EXPECT_FALSE(floor.takesStep(2, true));
  EXPECT_FALSE(floor.takesStep(3, true));
  EXPECT_TRUE(floor.takesStep(4, true));
  EXPECT_FALSE(floor.takesStep(5, false));
  floor.checkAgain();
  EXPECT_TRUE(floor.takesStep(6, false));
  EXPECT_TRUE(floor.takesStep(7, false));
  EXPECT_FALSE(floor.takesStep(8, false));
}

TEST(BudgetFloor, IsTheMostThatAStepAloneTook) {
  BudgetFloor floor;
  EXPECT_TRUE(floor.noteFloor(700, false));  // better than nothing
  EXPECT_FALSE(floor.noteFloor(800, false));
  EXPECT_EQ(floor.smallestBytes(), 700);
  EXPECT_TRUE(floor.noteFloor(750, true));
  EXPECT_FALSE(floor.noteFloor(750, true));
  EXPECT_EQ(floor.smallestBytes(), 750);
}

// 1020 less 30 of headroom is 990: within 1000, though the figure that is told is 1020.
TEST(BudgetFloor, WhatFitsWithoutTheHeadroomIsPossible) {
  BudgetFloor floor;
  ASSERT_TRUE(floor.takesStep(1, false));
  floor.noteFloor(1020, true);
  EXPECT_EQ(floor.judge({.floor_bytes = 1020, .headroom_bytes = 30}, kBudget), Verdict::kPossible);
  EXPECT_EQ(floor.smallestBytes(), 1020);
}

// 1040 less 30 is over 1000, but the step held: the second one decides, and is proof.
TEST(BudgetFloor, StepsThatHeldAreProofFromTheSecondOneOn) {
  BudgetFloor floor;
  const BudgetFloor::Step step{.floor_bytes = 1040, .headroom_bytes = 30};
  ASSERT_TRUE(floor.takesStep(1, false));
  floor.noteFloor(1040, true);
  EXPECT_EQ(floor.judge(step, kBudget), Verdict::kOpen);
  ASSERT_TRUE(floor.takesStep(2, false));
  EXPECT_EQ(floor.judge(step, kBudget), Verdict::kPossible);
  EXPECT_EQ(floor.smallestBytes(), kBudget);  // it would do, it did
}

TEST(BudgetFloor, WhatHeldBesideOthersIsPossible) {
  BudgetFloor floor;
  ASSERT_TRUE(floor.takesStep(1, false));
  EXPECT_EQ(floor.judge({.floor_bytes = 2000, .alone = false}, kBudget), Verdict::kPossible);
}

// What would do is the floor, or what was really mapped if that is more.
TEST(BudgetFloor, WhatWentOverIsImpossible) {
  BudgetFloor floor;
  ASSERT_TRUE(floor.takesStep(1, false));
  floor.noteFloor(900, true);
  EXPECT_EQ(floor.judge({.floor_bytes = 900, .violations = 1, .mapped_peak_bytes = 1100}, kBudget),
            Verdict::kImpossible);
  EXPECT_EQ(floor.smallestBytes(), 1100);
  floor.noteFloor(1200, true);
  EXPECT_EQ(floor.judge({.floor_bytes = 1200, .violations = 2, .mapped_peak_bytes = 1100}, kBudget),
            Verdict::kImpossible);
  EXPECT_EQ(floor.smallestBytes(), 1200);
}

// Three violations under the budget before: a fourth one is the first under this.
TEST(BudgetFloor, AnotherBudgetIsJudgedByItsOwnSteps) {
  BudgetFloor floor;
  floor.noteFloor(1200, true);
  floor.beginAnew(3);
  EXPECT_EQ(floor.smallestBytes(), 0);
  floor.checkAgain();
  ASSERT_TRUE(floor.takesStep(8, false));
  EXPECT_EQ(floor.judge({.floor_bytes = 900, .violations = 3}, kBudget), Verdict::kPossible);
  EXPECT_EQ(floor.judge({.floor_bytes = 900, .violations = 4}, kBudget), Verdict::kImpossible);
}

}  // namespace
}  // namespace ebbtide::plugin
