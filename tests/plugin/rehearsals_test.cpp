#include "runtime/rehearsals.hpp"

#include "judged_run.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::uint64_t kProgram = 7;

class RehearsalsTest : public test::JudgedRunTest {
 protected:
  static Config withBudget() {
    Config config;
    config.budget_bytes = 64 * kMib;
    config.budget_text = std::to_string(64 * kMib);
    return config;
  }
  RehearsalsTest() : JudgedRunTest(withBudget()) {
    while (steps_so_far_.to_record.any()) steps_so_far_.to_record.noteStep();
  }

  // Of a program of two ops, that replays these.
  static std::shared_ptr<Plan> planOf(std::vector<bool> replayed) {
    auto plan = std::make_shared<Plan>();
    plan->signature = kProgram;
    plan->op_signatures = {10, 11};
    plan->replayed = std::move(replayed);
    plan->replayed_name = {"aten::a", "aten::b"};
    return plan;
  }
  Program& program() { return steps_so_far_.programs[kProgram]; }

  StepsSoFar steps_so_far_;
  ReplayTrust trust_{metrics_.series(),
                     {.plan_without_rejected = [] {},
                      .warn = [](const std::string&) {},
                      .debug = [](const std::string&) {}}};
  PlanningService planning_{{}, [](const std::string&) {}};
  HostOutage host_{budget_};
  BudgetController budget_{run(host_.state())};
  Rehearsals rehearsals_{{.steps = steps_so_far_,
                          .trust = trust_,
                          .planning = planning_,
                          .budget = budget_,
                          .outage = host_,
                          .warn = [this](const std::string& text) { warned_.push_back(text); }}};
};

TEST_F(RehearsalsTest, APlanIsTrustedOnceAllThatItReplaysWasCompared) {
  program().plan = planOf({true, true});
  rehearsals_.rehearsed(*program().plan, /*whole=*/false);
  EXPECT_FALSE(program().plan->trusted);
  rehearsals_.rehearsed(*program().plan, /*whole=*/true);
  EXPECT_TRUE(program().plan->trusted);
  EXPECT_EQ(trust_.rehearsedSteps(), 2);
}

// It took the other one's place while a step rehearsed that.
TEST_F(RehearsalsTest, APlanIsTrustedByWhatAnotherOneCompared) {
  const auto before = planOf({true, false});
  program().plan = planOf({true, true});
  rehearsals_.rehearsed(*before, /*whole=*/true);
  EXPECT_FALSE(program().plan->trusted);  // nobody has compared op 1
  program().plan = planOf({true, false});
  rehearsals_.rehearsed(*before, /*whole=*/true);
  EXPECT_TRUE(program().plan->trusted);
}

TEST_F(RehearsalsTest, APlanWithARejectedOpIsNotTrusted) {
  program().plan = planOf({true, true});
  trust_.reject("aten::b", 11, "a test");
  rehearsals_.rehearsed(*program().plan, /*whole=*/true);
  EXPECT_FALSE(program().plan->trusted);
  rehearsals_.planWithoutRejected();
  EXPECT_EQ(program().plan, nullptr);
  EXPECT_TRUE(steps_so_far_.to_record.any());
}

TEST_F(RehearsalsTest, APlanWithoutARejectedOpStays) {
  program().plan = planOf({true, false});
  trust_.reject("aten::b", 11, "a test");
  rehearsals_.planWithoutRejected();
  EXPECT_NE(program().plan, nullptr);
  EXPECT_FALSE(steps_so_far_.to_record.any());
}

TEST_F(RehearsalsTest, AThirdStepThatRehearsesPartOfItHasAnotherPlanMade) {
  const auto plan = planOf({true, true});
  program().plan = plan;
  for (int i = 0; i < 2; ++i) rehearsals_.rehearsed(*plan, /*whole=*/false);
  EXPECT_EQ(program().plan, plan);
  EXPECT_FALSE(program().replan);
  rehearsals_.rehearsed(*plan, /*whole=*/false);
  EXPECT_EQ(program().plan, nullptr);
  EXPECT_TRUE(program().replan);
  EXPECT_TRUE(steps_so_far_.to_record.any());
}

TEST_F(RehearsalsTest, WhatAStepOnAnOlderPlanMetIsNoWordOnThisOne) {
  const auto older = planOf({true, true});
  program().plan = planOf({true, true});
  for (int i = 0; i < 3; ++i) rehearsals_.rehearsed(*older, /*whole=*/false);
  rehearsals_.failed(*older, "a test");
  EXPECT_NE(program().plan, nullptr);
  EXPECT_FALSE(program().replan);
}

// Each is made anew four times. The fifth that fails is said, and no plan is asked for any more.
TEST_F(RehearsalsTest, PlansThatFailAreMadeAnewSoManyTimes) {
  for (int i = 0; i < Program::kMostReplans; ++i) {
    program().plan = planOf({true, true});
    program().replan = false;  // it was asked for
    rehearsals_.failed(*program().plan, "a test");
    EXPECT_EQ(program().plan, nullptr);
    EXPECT_TRUE(program().replan);
  }
  EXPECT_TRUE(warned_.empty());
  program().plan = planOf({true, true});
  program().replan = false;
  rehearsals_.failed(*program().plan, "a test");
  EXPECT_FALSE(program().replan);
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_EQ(warned_[0], "no plan could be rehearsed, values are spilled instead: a test");
}

// It says nothing of what a search finds.
TEST_F(RehearsalsTest, AFirstPlanThatFailsTakesNoTurnOfASearch) {
  program().plan = planOf({true, true});
  program().first = FirstPlan(program().plan, {});
  rehearsals_.failed(*program().plan, "a test");
  EXPECT_TRUE(program().replan);
  EXPECT_EQ(program().replans, 0);
}

TEST_F(RehearsalsTest, OfAProgramThatNobodyKnowsNothingFollows) {
  const auto plan = planOf({true, true});
  rehearsals_.rehearsed(*plan, /*whole=*/true);
  rehearsals_.failed(*plan, "a test");
  EXPECT_EQ(steps_so_far_.programs.size(), 0U);
  EXPECT_TRUE(warned_.empty());
}

// While the budget is not decided, or is one that was asked for. Not while another one is due.
TEST_F(RehearsalsTest, KeepsWithinABudgetThatIsStillJudged) {
  EXPECT_TRUE(rehearsals_.keepsWithinBudget());
  {
    const Held held = guard_.hold();
    budget_.ask(held, std::to_string(32 * kMib));
  }
  EXPECT_FALSE(rehearsals_.keepsWithinBudget());
  {
    const Held held = guard_.hold();
    budget_.take(held);
  }
  EXPECT_TRUE(rehearsals_.keepsWithinBudget());
  {
    const Held held = guard_.hold();
    budget_.ask(held, "");
    budget_.take(held);
  }
  EXPECT_FALSE(rehearsals_.keepsWithinBudget());  // there is none
}

}  // namespace
}  // namespace ebbtide::plugin
