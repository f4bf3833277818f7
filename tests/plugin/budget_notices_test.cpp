#include "runtime/budget/budget_notices.hpp"

#include "judged_budget.hpp"

namespace ebbtide::plugin {
namespace {

class BudgetNoticesTest : public test::JudgedBudgetTest {
 protected:
  BudgetNoticesTest() { trained_.setBudget(std::to_string(kBudget)); }

  // Two steps hold, and the third begins as they did.
  void decide() {
    for (int i = 0; i < BudgetFloor::kChecks; ++i) {
      floor_.noteBegin(kMib, kBudget, 0);
      floor_.noteStep({});
    }
    floor_.noteBegin(kMib, kBudget, 0);
    ASSERT_EQ(floor_.state(), BudgetFloor::State::kPossible);
  }

  static constexpr std::int64_t kBudget = 64 * kMib;
  static constexpr BudgetNotices::Fits kFits{.plain_peak_bytes = 32 * kMib,
                                             .activation_bytes = 16 * kMib};
  // What is kept free comes on top of 80 MiB.
  static constexpr BudgetNotices::PlanMade kSpills{
      .feasible = false, .predicted_peak_bytes = 80 * kMib, .host_bytes = 0};

  BudgetNotices notices_{run_, budget_, floor_, refusal_, told_};
};

TEST_F(BudgetNoticesTest, ThatAStepFitsIsSaidOnceTheBudgetIsDecided) {
  const Held held = guard_.hold();
  notices_.noteFits(held, kFits);
  notices_.sayFits(held);
  EXPECT_TRUE(said_.empty());
  decide();
  notices_.sayFits(held);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_NE(said_[0].find("a step needs 32.0 MiB and the budget is 64.0 MiB"), std::string::npos)
      << said_[0];
  notices_.noteFits(held, kFits);
  notices_.sayFits(held);
  EXPECT_EQ(said_.size(), 1U);
}

// Nets of 48 and 32 MiB take turns: whichever was planned last, the larger one is what a step
// needs. Half of its 40 MiB of activations would be 28, and 1 that is kept free.
TEST_F(BudgetNoticesTest, OfProgramsThatTakeTurnsTheLargestIsTold) {
  const Held held = guard_.hold();
  notices_.noteFits(held, {.plain_peak_bytes = 48 * kMib, .activation_bytes = 40 * kMib});
  notices_.noteFits(held, kFits);
  decide();
  notices_.sayFits(held);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_[0],
            "nothing to do so far: a step needs 48.0 MiB and the budget is 64.0 MiB. Half of the "
            "activations would be EBBTIDE_BUDGET=29MiB");
}

// It was planned by the run's first step alone, of which nothing is noted.
TEST_F(BudgetNoticesTest, TheFirstStepMayHaveBeenTheLargest) {
  const Held held = guard_.hold();
  programs_[1].plain.peak_bytes = 48 * kMib;
  programs_[2].plain.peak_bytes = 32 * kMib;
  notices_.noteFits(held, kFits);
  decide();
  notices_.sayFits(held);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_NE(said_[0].find("a step needs 48.0 MiB and"), std::string::npos) << said_[0];
}

// A program of 80 MiB was refused, say, and is gone.
TEST_F(BudgetNoticesTest, WhatDoesNotFitIsNoNeedOfARunThatDoes) {
  const Held held = guard_.hold();
  programs_[1].plain.peak_bytes = 80 * kMib;
  notices_.noteFits(held, kFits);
  decide();
  notices_.sayFits(held);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_NE(said_[0].find("a step needs 32.0 MiB and"), std::string::npos) << said_[0];
}

TEST_F(BudgetNoticesTest, ThatAStepFitsIsNotSaidWhereOneSpilled) {
  const Held held = guard_.hold();
  decide();
  counters_.addSpill(1);
  notices_.noteFits(held, kFits);
  notices_.sayFits(held);
  EXPECT_TRUE(said_.empty());
}

TEST_F(BudgetNoticesTest, ThatStepsSpillIsSaidOnceTheBudgetIsDecided) {
  const Held held = guard_.hold();
  notices_.notePlan(held, kSpills);
  EXPECT_GT(notices_.withoutSpillBytes(held), 80 * kMib);
  EXPECT_TRUE(warned_.empty());
  decide();
  notices_.saySpills(held);
  ASSERT_EQ(warned_.size(), 1U);
  notices_.notePlan(held, kSpills);
  EXPECT_EQ(warned_.size(), 1U);
}

TEST_F(BudgetNoticesTest, APlanThatFitsTakesBackWhatWasToBeSaid) {
  const Held held = guard_.hold();
  notices_.notePlan(held, kSpills);
  notices_.notePlan(held, {.feasible = true, .predicted_peak_bytes = kMib, .host_bytes = 0});
  decide();
  notices_.saySpills(held);
  EXPECT_TRUE(warned_.empty());
  EXPECT_EQ(notices_.withoutSpillBytes(held), 0);
}

// A refusal stands alone.
TEST_F(BudgetNoticesTest, NothingIsSaidOfABudgetThatIsTooSmall) {
  const Held held = guard_.hold();
  floor_.noteBegin(kMib, kBudget, 0);
  floor_.noteStep({.violations = 1, .mapped_peak_bytes = 2 * kBudget});
  floor_.noteBegin(kMib, kBudget, 1);
  ASSERT_EQ(floor_.state(), BudgetFloor::State::kImpossible);
  notices_.noteFits(held, kFits);
  notices_.sayFits(held);
  notices_.notePlan(held, kSpills);
  EXPECT_TRUE(said_.empty());
  EXPECT_TRUE(warned_.empty());
}

}  // namespace
}  // namespace ebbtide::plugin
