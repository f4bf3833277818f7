#include "runtime/budget_notices.hpp"

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
