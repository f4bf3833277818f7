#include "runtime/budget/budget_check.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace ebbtide::plugin {
namespace {

class BudgetCheckTest : public testing::Test {
 protected:
  void budgets(const std::string& text, int rank = 0, int world_size = 2) {
    Config config;
    config.budget.by_rank = scheduler::RankBudgets::parse("EBBTIDE_BUDGET", text);
    config.rank = rank;
    config.world_size = world_size;
    config_.change(std::move(config));
  }
  static StepSummary recordedStep() {
    StepSummary step;
    step.recorded = true;
    return step;
  }

  CurrentConfig config_;
  std::vector<std::string> warned_;
  BudgetCheck check_{config_, [this](const std::string& text) { warned_.push_back(text); }};
};

TEST_F(BudgetCheckTest, RankZeroWarnsOfRanksThatAreNotThere) {
  budgets("rank1=1GiB,rank9=2GiB", 1);
  check_.checkRanks();
  EXPECT_TRUE(warned_.empty());
  budgets("rank1=1GiB,rank9=2GiB");
  check_.checkRanks();
  EXPECT_EQ(warned_, std::vector<std::string>{"EBBTIDE_BUDGET: rank9=2GiB is for nothing that is "
                                              "there: the job has ranks 0-1"});
}

// A rank that acted as one of two is one of three.
TEST_F(BudgetCheckTest, RanksThatAreNotThereAreToldOnceForEachNumberOfRanks) {
  budgets("rank1=1GiB,rank9=2GiB");
  for (int i = 0; i < 2; ++i) check_.checkRanks();
  EXPECT_EQ(warned_.size(), 1U);
  budgets("rank1=1GiB,rank9=2GiB", 0, 3);
  check_.checkRanks();
  EXPECT_EQ(warned_.size(), 2U);
}

TEST_F(BudgetCheckTest, StagesThatAreNotThereAreToldOnce) {
  budgets("stage0=1GiB,stage7=1GiB,stage8=1GiB");
  check_.checkStages({0, 1});
  check_.checkStages({0, 1});
  EXPECT_EQ(warned_,
            std::vector<std::string>{"EBBTIDE_BUDGET: stage7=1GiB, stage8=1GiB are for nothing "
                                     "that is there: the job has stages 0-1"});
}

// The first step may be one of another kind.
TEST_F(BudgetCheckTest, WithoutMessagesTheStagesAreTheRanksFromTheSecondStepOn) {
  budgets("stage7=1GiB");
  check_.noteStep(StepSummary{}, 2);  // not recorded
  check_.noteStep(recordedStep(), 1);
  EXPECT_TRUE(warned_.empty());
  check_.noteStep(recordedStep(), 2);
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_NE(warned_[0].find("the job has stages 0-1"), std::string::npos);
  check_.noteStep(recordedStep(), 3);
  EXPECT_EQ(warned_.size(), 1U);
}

// The other ranks tell which stages there are; from the first such step on.
TEST_F(BudgetCheckTest, WhereStepsExchangeMessagesNoStageIsGuessed) {
  budgets("stage7=1GiB");
  StepSummary step = recordedStep();
  step.trace.messages.emplace_back();
  check_.noteStep(step, 1);
  check_.noteStep(recordedStep(), 2);
  EXPECT_TRUE(warned_.empty());
}

TEST_F(BudgetCheckTest, ABudgetBeyondTheMachinesMemoryIsToldOnceForEach) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / 2;
  check_.checkMemory(1, most);
  EXPECT_TRUE(warned_.empty());
  for (const std::int64_t budget : {most, most, most - 1}) check_.checkMemory(budget, most);
  EXPECT_EQ(warned_.size(), 2U);
}

TEST_F(BudgetCheckTest, SoIsOneBeyondWhatTheRankCanHave) {
  for (int i = 0; i < 2; ++i) check_.checkMemory(2, 1);
  EXPECT_EQ(warned_.size(), 1U);
}

}  // namespace
}  // namespace ebbtide::plugin
