#include "runtime/budget/budget_controller.hpp"

#include "judged_run.hpp"

namespace ebbtide::plugin {
namespace {

class BudgetControllerTest : public test::JudgedRunTest {
 protected:
  static constexpr std::int64_t kOwn = 64 * kMib, kAsked = 32 * kMib;

  static Config withBudget() {
    Config config;
    config.budget.bytes = kOwn;
    config.budget.text = std::to_string(kOwn);
    return config;
  }
  BudgetControllerTest() : JudgedRunTest(withBudget()) {}

  BudgetController budget_{run()};
};

TEST_F(BudgetControllerTest, WhatIsAskedForHoldsWhenAStepBegins) {
  const Held held = guard_.hold();
  budget_.ask(held, std::to_string(kAsked));
  EXPECT_TRUE(budget_.isOpen(held));
  EXPECT_EQ(budget_.bytes(), kOwn);
  const int before = budget_.number(held);
  EXPECT_EQ(budget_.take(held), std::to_string(kAsked));
  EXPECT_EQ(budget_.bytes(), kAsked);
  EXPECT_EQ(budget_.number(held), before + 1);
  EXPECT_EQ(budget_.take(held), std::nullopt);
}

// Plans that were made for 64 MiB would go over 32. Those for 32 hold under 64.
TEST_F(BudgetControllerTest, PlansOfALargerBudgetGo) {
  const Held held = guard_.hold();
  programs_[1].in_force.plan = std::make_shared<Plan>();
  budget_.ask(held, std::to_string(kAsked));
  budget_.take(held);
  EXPECT_EQ(programs_[1].in_force.plan, nullptr);
  programs_[1].in_force.plan = std::make_shared<Plan>();
  budget_.ask(held, std::to_string(kOwn));
  budget_.take(held);
  EXPECT_NE(programs_[1].in_force.plan, nullptr);
}

TEST_F(BudgetControllerTest, PlansStayOverAPause) {
  const Held held = guard_.hold();
  programs_[1].in_force.plan = std::make_shared<Plan>();
  budget_.pause(held, true);
  EXPECT_FALSE(budget_.paused());  // until a step begins
  EXPECT_EQ(budget_.modeName(held), "paused");
  EXPECT_EQ(budget_.take(held), std::nullopt);
  EXPECT_TRUE(budget_.paused());
  EXPECT_EQ(budget_.bytes(), std::nullopt);
  budget_.pause(held, false);
  EXPECT_EQ(budget_.take(held), std::nullopt);
  EXPECT_FALSE(budget_.paused());
  EXPECT_EQ(budget_.bytes(), kOwn);
  EXPECT_NE(programs_[1].in_force.plan, nullptr);
  ASSERT_EQ(said_.size(), 2U);
  EXPECT_EQ(said_[0], "paused: as PyTorch alone from step 1 on");
  EXPECT_EQ(said_[1], "it goes on with step 1: the budget is 64.0 MiB");
}

TEST_F(BudgetControllerTest, WhatIsAskedForIsTakenBackWhereAStepGoesOver) {
  const Held held = guard_.hold();
  budget_.noteOver(held);  // its own stays
  EXPECT_EQ(budget_.take(held), std::nullopt);
  budget_.ask(held, std::to_string(kAsked));
  budget_.take(held);
  budget_.noteOver(held);
  EXPECT_EQ(budget_.take(held), std::to_string(kOwn));
  EXPECT_EQ(budget_.bytes(), kOwn);
}

// What began under the budget before tells nothing of this one.
TEST_F(BudgetControllerTest, AStepOfAnOlderBudgetTakesNothingBack) {
  const Held held = guard_.hold();
  const OpenSteps::Number older = budget_.beginStep(held);
  budget_.ask(held, std::to_string(kAsked));
  budget_.take(held);
  budget_.noteOver(held);
  EXPECT_FALSE(budget_.isOpen(held));
  budget_.endStep(held, older);
  budget_.noteOver(held);
  EXPECT_TRUE(budget_.isOpen(held));
}

}  // namespace
}  // namespace ebbtide::plugin
