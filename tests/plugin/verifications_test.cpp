#include "runtime/verifications.hpp"

#include "judged_run.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::uint64_t kProgram = 7;

class VerificationsTest : public test::JudgedRunTest {
 protected:
  static Config withBudget() {
    Config config;
    config.budget.bytes = 64 * kMib;
    config.budget.text = std::to_string(64 * kMib);
    return config;
  }
  VerificationsTest() : JudgedRunTest(withBudget()) {
    while (steps_so_far_.to_record.any()) steps_so_far_.to_record.noteStep();
  }

  // Of a program of two ops, that replays these.
  static std::shared_ptr<Plan> planOf(std::vector<bool> replayed) {
    auto plan = std::make_shared<Plan>();
    plan->signature = kProgram;
    plan->ops.signatures = {10, 11};
    plan->ops.replayed = std::move(replayed);
    plan->ops.replayed_name = {"aten::a", "aten::b"};
    return plan;
  }
  Program& program() { return steps_so_far_.programs[kProgram]; }

  StepsSoFar steps_so_far_;
  ReplayTrust trust_{metrics_.series(),
                     {.plan_without_rejected = [] {},
                      .warn = [](const std::string&) {},
                      .debug = [](const std::string&) {}}};
  PlanningService planning_{{}, [](const std::string&) {}};
  OutageCourse host_{budget_};
  BudgetController budget_{run(host_.state())};
  Verifications verifications_{
      {.steps = steps_so_far_,
       .trust = trust_,
       .planning = planning_,
       .budget = budget_,
       .outage = host_,
       .warn = [this](const std::string& text) { warned_.push_back(text); }}};
};

TEST_F(VerificationsTest, APlanIsTrustedOnceAllThatItReplaysWasCompared) {
  program().in_force.plan = planOf({true, true});
  verifications_.verified(*program().in_force.plan, /*whole=*/false);
  EXPECT_FALSE(program().in_force.plan->trusted);
  verifications_.verified(*program().in_force.plan, /*whole=*/true);
  EXPECT_TRUE(program().in_force.plan->trusted);
  EXPECT_EQ(trust_.verificationSteps(), 2);
}

// It took the other one's place while a step verified that.
TEST_F(VerificationsTest, APlanIsTrustedByWhatAnotherOneCompared) {
  const auto before = planOf({true, false});
  program().in_force.plan = planOf({true, true});
  verifications_.verified(*before, /*whole=*/true);
  EXPECT_FALSE(program().in_force.plan->trusted);  // nobody has compared op 1
  program().in_force.plan = planOf({true, false});
  verifications_.verified(*before, /*whole=*/true);
  EXPECT_TRUE(program().in_force.plan->trusted);
}

TEST_F(VerificationsTest, APlanWithARejectedOpIsNotTrusted) {
  program().in_force.plan = planOf({true, true});
  trust_.reject("aten::b", 11, "a test");
  verifications_.verified(*program().in_force.plan, /*whole=*/true);
  EXPECT_FALSE(program().in_force.plan->trusted);
  verifications_.planWithoutRejected();
  EXPECT_EQ(program().in_force.plan, nullptr);
  EXPECT_TRUE(steps_so_far_.to_record.any());
}

TEST_F(VerificationsTest, APlanWithoutARejectedOpStays) {
  program().in_force.plan = planOf({true, false});
  trust_.reject("aten::b", 11, "a test");
  verifications_.planWithoutRejected();
  EXPECT_NE(program().in_force.plan, nullptr);
  EXPECT_FALSE(steps_so_far_.to_record.any());
}

TEST_F(VerificationsTest, AThirdStepThatVerifiesPartOfItHasAnotherPlanMade) {
  const auto plan = planOf({true, true});
  program().in_force.plan = plan;
  for (int i = 0; i < 2; ++i) verifications_.verified(*plan, /*whole=*/false);
  EXPECT_EQ(program().in_force.plan, plan);
  EXPECT_FALSE(program().planning.replan);
  verifications_.verified(*plan, /*whole=*/false);
  EXPECT_EQ(program().in_force.plan, nullptr);
  EXPECT_TRUE(program().planning.replan);
  EXPECT_TRUE(steps_so_far_.to_record.any());
}

TEST_F(VerificationsTest, WhatAStepOnAnOlderPlanMetIsNoWordOnThisOne) {
  const auto older = planOf({true, true});
  program().in_force.plan = planOf({true, true});
  for (int i = 0; i < 3; ++i) verifications_.verified(*older, /*whole=*/false);
  verifications_.failed(*older, "a test");
  EXPECT_NE(program().in_force.plan, nullptr);
  EXPECT_FALSE(program().planning.replan);
}

// Each is made anew four times. The fifth that fails is said, and no plan is asked for any more.
TEST_F(VerificationsTest, PlansThatFailAreMadeAnewSoManyTimes) {
  for (int i = 0; i < Program::kMostReplans; ++i) {
    program().in_force.plan = planOf({true, true});
    program().planning.replan = false;  // it was asked for
    verifications_.failed(*program().in_force.plan, "a test");
    EXPECT_EQ(program().in_force.plan, nullptr);
    EXPECT_TRUE(program().planning.replan);
  }
  EXPECT_TRUE(warned_.empty());
  program().in_force.plan = planOf({true, true});
  program().planning.replan = false;
  verifications_.failed(*program().in_force.plan, "a test");
  EXPECT_FALSE(program().planning.replan);
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_EQ(warned_[0], "no plan could be verified, values are spilled instead: a test");
}

// There is no disk any more that anything could be spilled to.
TEST_F(VerificationsTest, AfterAnOutageNothingIsSaidToBeSpilled) {
  host_.begin();
  warned_.clear();
  program().in_force.plan = planOf({true, true});
  program().planning.replans = Program::kMostReplans;
  verifications_.failed(*program().in_force.plan, "a test");
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_EQ(warned_[0],
            "no plan could be verified, values are computed again where that is possible: a test");
}

// It says nothing of what a search finds.
TEST_F(VerificationsTest, AFirstPlanThatFailsTakesNoTurnOfASearch) {
  program().in_force.plan = planOf({true, true});
  program().in_force.first = FirstPlan(program().in_force.plan, {});
  verifications_.failed(*program().in_force.plan, "a test");
  EXPECT_TRUE(program().planning.replan);
  EXPECT_EQ(program().planning.replans, 0);
}

TEST_F(VerificationsTest, OfAProgramThatNobodyKnowsNothingFollows) {
  const auto plan = planOf({true, true});
  verifications_.verified(*plan, /*whole=*/true);
  verifications_.failed(*plan, "a test");
  EXPECT_EQ(steps_so_far_.programs.size(), 0U);
  EXPECT_TRUE(warned_.empty());
}

// While the budget is not decided, or is one that was asked for. Not while another one is due.
TEST_F(VerificationsTest, KeepsWithinABudgetThatIsStillJudged) {
  EXPECT_TRUE(verifications_.keepsWithinBudget());
  {
    const Held held = guard_.hold();
    budget_.ask(held, std::to_string(32 * kMib));
  }
  EXPECT_FALSE(verifications_.keepsWithinBudget());
  {
    const Held held = guard_.hold();
    budget_.take(held);
  }
  EXPECT_TRUE(verifications_.keepsWithinBudget());
  {
    const Held held = guard_.hold();
    budget_.ask(held, "");
    budget_.take(held);
  }
  EXPECT_FALSE(verifications_.keepsWithinBudget());  // there is none
}

}  // namespace
}  // namespace ebbtide::plugin
