#include "runtime/budget/stage_budget.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

using Stages = std::vector<std::int32_t>;

StageBudget budgetOf(const std::string& text, std::int32_t rank) {
  return {scheduler::RankBudgets::parse("EBBTIDE_BUDGET", text), rank};
}

scheduler::Trace stepWith(const std::vector<std::string>& scopes, bool messages) {
  scheduler::Trace trace;
  for (const std::string& name : scopes) trace.scopes.push_back({.name = name});
  if (messages) trace.messages.push_back({.receive = true, .peer = 1, .bytes = 64});
  return trace;
}

TEST(StageBudget, IsTheDefaultUntilTheStageIsKnown) {
  EXPECT_EQ(budgetOf("default=1GiB,stage0=2GiB", 0).size(), "1GiB");
  EXPECT_EQ(budgetOf("stage0=2GiB", 0).size(), std::nullopt);
  EXPECT_FALSE(budgetOf("stage0=2GiB", 0).known());
}

TEST(StageBudget, OfAStepWithoutMessagesIsThatOfTheRank) {
  StageBudget budget = budgetOf("default=1GiB,stage3=2GiB", 3);
  EXPECT_TRUE(budget.noteStep(stepWith({"forward"}, false)));
  EXPECT_EQ(budget.stages(), Stages{3});
  EXPECT_EQ(budget.size(), "2GiB");
  EXPECT_FALSE(budget.noteStep(stepWith({}, false)));
}

// 1F1B names microbatches alone: the stage is whatever messages make it.
TEST(StageBudget, OfAPipelineIsWhatTheRanksFind) {
  StageBudget budget = budgetOf("default=1GiB,stage1=2GiB", 3);
  EXPECT_FALSE(budget.noteStep(stepWith({"Forward 0", "Backward 0"}, true)));
  EXPECT_FALSE(budget.known());
  EXPECT_TRUE(budget.asksOthers());
  EXPECT_TRUE(budget.noteFound({1}));
  EXPECT_FALSE(budget.asksOthers());
  EXPECT_EQ(budget.size(), "2GiB");
  EXPECT_FALSE(budget.noteStep(stepWith({}, false)));  // an evaluation in between, say
  EXPECT_EQ(budget.stages(), Stages{1});
}

TEST(StageBudget, StepsWithoutMessagesAreNoReasonNotToAsk) {
  StageBudget budget = budgetOf("stage1=2GiB", 3);
  EXPECT_TRUE(budget.noteStep(stepWith({}, false)));
  EXPECT_EQ(budget.size(), std::nullopt);
  EXPECT_TRUE(budget.asksOthers());
  EXPECT_TRUE(budget.noteFound({1}));
  EXPECT_EQ(budget.size(), "2GiB");
}

TEST(StageBudget, NamesOfTheProgramWin) {
  StageBudget budget = budgetOf("stage0=1GiB,stage2=2GiB,stage5=3GiB", 0);
  EXPECT_TRUE(budget.noteFound({0}));
  EXPECT_TRUE(budget.noteStep(stepWith({"PP:2F0", "PP:0F0", "PP:1RECV_F0"}, true)));
  EXPECT_EQ(budget.stages(), (Stages{0, 2}));  // a message may be another stage's
  EXPECT_EQ(budget.size(), "2GiB");            // the last entry of several
  EXPECT_FALSE(budget.noteFound({5}));
  EXPECT_TRUE(budget.noteStep(stepWith({"ebbtide:5:0"}, true)));  // another program
  EXPECT_EQ(budget.stages(), (Stages{0, 2, 5}));
  EXPECT_EQ(budget.size(), "3GiB");
}

}  // namespace
}  // namespace ebbtide::plugin
