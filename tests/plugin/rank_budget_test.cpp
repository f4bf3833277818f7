#include "runtime/budget/rank_budget.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

using std::chrono::seconds;
using Found = RankBudget::Found;
using Message = RankBudget::Message;

const RankBudget::Time kStart{};

RankBudget ofRank(std::int32_t rank, const std::string& text) {
  return RankBudget(StageBudget(scheduler::RankBudgets::parse("EBBTIDE_BUDGET", text), rank));
}

// A step that exchanges messages, and names the stages that it runs, if any.
scheduler::Trace pipelineStep(const std::vector<std::string>& scopes = {}) {
  scheduler::Trace trace;
  for (const std::string& name : scopes) trace.scopes.push_back({.name = name});
  trace.messages.push_back({.receive = true, .peer = 1, .bytes = 64});
  return trace;
}

// --- Which rank it is ---------------------------------------------------------------------------

TEST(RankBudget, OfAnotherRankIsDue) {
  RankBudget budget(std::nullopt, "22MiB");
  budget.becomeRank(std::nullopt, "30MiB");
  EXPECT_TRUE(budget.isOpen());
  EXPECT_EQ(budget.takeDue(), "30MiB");
  EXPECT_FALSE(budget.isOpen());
}

TEST(RankBudget, HoldsNoneThatIsNotWritten) {
  EXPECT_FALSE(RankBudget(std::nullopt, "").holdsAny());
  EXPECT_FALSE(RankBudget(std::nullopt, "none").holdsAny());
  RankBudget budget(std::nullopt, "-50%");
  EXPECT_TRUE(budget.holdsAny());
  budget.pause(true);
  EXPECT_FALSE(budget.holdsAny());
}

TEST(RankBudget, WhatWasAskedForStaysWhicheverRankItIs) {
  RankBudget budget(std::nullopt, "22MiB");
  budget.ask("40MiB");
  budget.becomeRank(std::nullopt, "30MiB");
  EXPECT_EQ(budget.takeDue(), "40MiB");
  EXPECT_TRUE(budget.takeBack());
  EXPECT_EQ(budget.takeDue(), "30MiB");
}

TEST(RankBudget, OfAnotherRankMayBeThatOfItsStage) {
  RankBudget budget(std::nullopt, "22MiB");
  const auto budgets =
      scheduler::RankBudgets::parse("EBBTIDE_BUDGET", "default=30MiB,rank0=22MiB,stage1=40MiB");
  budget.becomeRank(StageBudget(budgets, 1), "30MiB");
  EXPECT_TRUE(budget.isOfStage());
  EXPECT_EQ(budget.takeDue(), "30MiB");
  EXPECT_TRUE(budget.isOpen());  // until its stage is known
}

// No verdict on the one in force while the other ranks are asked.
TEST(RankBudget, IsOpenWhileItsRankIsAsked) {
  RankBudget budget(std::nullopt, "80%");
  budget.awaitRank(true);
  EXPECT_TRUE(budget.isOpen());
  EXPECT_EQ(budget.takeDue(), std::nullopt);
  budget.awaitRank(false);
  EXPECT_FALSE(budget.isOpen());
}

// --- Which one holds ----------------------------------------------------------------------------

TEST(RankBudget, OfARankOfItsOwnIsNeverOpen) {
  RankBudget budget{std::nullopt};
  EXPECT_FALSE(budget.isOfStage());
  EXPECT_FALSE(budget.isOpen());
  EXPECT_FALSE(budget.asksOthers());
  EXPECT_FALSE(budget.noteStep(pipelineStep({"PP:2F0"})));
  EXPECT_EQ(budget.noteFound({2}), Found::kNothingNew);
  EXPECT_FALSE(budget.giveUp());
  EXPECT_FALSE(budget.waitedLongEnough(RankBudget::kStepsUntilTold, true, kStart));
  EXPECT_EQ(budget.takeDue(), std::nullopt);
  EXPECT_EQ(budget.number(), 0);
}

// Not known, named by the program, due, taken.
TEST(RankBudget, OfANamedStageIsTakenOnceBetweenTwoSteps) {
  RankBudget budget = ofRank(0, "default=1GiB,stage2=2GiB");
  EXPECT_TRUE(budget.isOpen());
  EXPECT_EQ(budget.takeDue(), std::nullopt);
  EXPECT_TRUE(budget.noteStep(pipelineStep({"PP:2F0"})));
  EXPECT_TRUE(budget.isOpen());  // it is known, but the step before it still holds
  EXPECT_EQ(budget.number(), 0);
  EXPECT_EQ(budget.takeDue(), "2GiB");
  EXPECT_FALSE(budget.isOpen());
  EXPECT_EQ(budget.number(), 1);
  EXPECT_FALSE(budget.noteStep(pipelineStep({"PP:2F0"})));  // the same again
  EXPECT_EQ(budget.takeDue(), std::nullopt);
  EXPECT_EQ(budget.number(), 1);
}

// Without messages the stage is the rank: 3.
TEST(RankBudget, OfAStepWithoutMessagesIsThatOfTheRanksNumber) {
  RankBudget budget = ofRank(3, "default=1GiB,stage3=2GiB");
  EXPECT_TRUE(budget.noteStep({}));
  EXPECT_EQ(budget.takeDue(), "2GiB");
  EXPECT_TRUE(budget.asksOthers());  // a pipeline may still come
}

TEST(RankBudget, OfAStageWithoutAnEntryIsNone) {
  RankBudget budget = ofRank(0, "stage1=2GiB");
  EXPECT_TRUE(budget.noteStep(pipelineStep({"PP:0F0"})));
  EXPECT_EQ(budget.takeDue(), "");
  EXPECT_EQ(budget.number(), 1);
}

// Learnt twice before a step begins: one budget, that of the last stages.
TEST(RankBudget, WhatIsLearntAgainBeforeItIsTakenIsTakenOnce) {
  RankBudget budget = ofRank(0, "default=1GiB,stage1=2GiB,stage2=3GiB");
  EXPECT_EQ(budget.noteFound({1}), Found::kOtherBudget);
  EXPECT_TRUE(budget.noteStep(pipelineStep({"PP:2F0"})));
  EXPECT_EQ(budget.takeDue(), "3GiB");
  EXPECT_EQ(budget.takeDue(), std::nullopt);
  EXPECT_EQ(budget.number(), 1);
}

// --- What the ranks find together
// -----------------------------------------------------------------

// Before it is known the default's size holds, 1GiB: stage 1 has another one, stage 2 has not.
TEST(RankBudget, FoundStagesMayHaveTheSameBudgetAsBefore) {
  RankBudget other = ofRank(3, "default=1GiB,stage1=2GiB");
  EXPECT_EQ(other.noteFound({1}), Found::kOtherBudget);
  EXPECT_EQ(other.noteFound({1}), Found::kNothingNew);
  EXPECT_EQ(other.noteFound({}), Found::kNothingNew);
  EXPECT_FALSE(other.asksOthers());

  RankBudget same = ofRank(3, "default=1GiB,stage1=2GiB");
  EXPECT_EQ(same.noteFound({2}), Found::kSameBudget);
  EXPECT_TRUE(same.isOpen());
  EXPECT_EQ(same.takeDue(), "1GiB");  // taken all the same: it is sure now
  EXPECT_EQ(same.number(), 1);
}

TEST(RankBudget, WhatTheProgramNamesIsNotFoundAgain) {
  RankBudget budget = ofRank(3, "default=1GiB,stage1=2GiB,stage2=3GiB");
  EXPECT_TRUE(budget.noteStep(pipelineStep({"PP:2F0"})));
  EXPECT_EQ(budget.takeDue(), "3GiB");
  EXPECT_EQ(budget.noteFound({1}), Found::kNothingNew);
  EXPECT_EQ(budget.takeDue(), std::nullopt);
}

// --- Nobody tells
// ---------------------------------------------------------------------------------

// 180 s from the step in which it has told, not from the first one: 10 + 180 = 190.
TEST(RankBudget, AStageThatNobodyTellsIsGivenUpInTime) {
  RankBudget budget = ofRank(0, "default=1GiB,stage1=2GiB");
  EXPECT_FALSE(budget.waitedLongEnough(1, false, kStart));
  EXPECT_FALSE(budget.waitedLongEnough(2, true, kStart + seconds(10)));
  EXPECT_FALSE(budget.waitedLongEnough(3, true, kStart + seconds(190)));
  EXPECT_TRUE(budget.isOpen());
  EXPECT_TRUE(budget.waitedLongEnough(4, true, kStart + seconds(191)));
  EXPECT_FALSE(budget.isOpen());                                          // the default stays
  EXPECT_FALSE(budget.waitedLongEnough(5, true, kStart + seconds(192)));  // said once
  EXPECT_EQ(budget.takeDue(), std::nullopt);
  EXPECT_EQ(budget.number(), 0);
}

// The clock starts in step 20, at 100 s, and runs on though it tells later: 100 + 180 = 280.
TEST(RankBudget, ARankThatTellsNothingWaitsFromTheTwentiethStepOn) {
  RankBudget budget = ofRank(0, "default=1GiB,stage1=2GiB");
  EXPECT_FALSE(budget.waitedLongEnough(19, false, kStart));
  EXPECT_FALSE(budget.waitedLongEnough(20, false, kStart + seconds(100)));
  EXPECT_FALSE(budget.waitedLongEnough(21, true, kStart + seconds(280)));
  EXPECT_TRUE(budget.waitedLongEnough(22, true, kStart + seconds(281)));
}

TEST(RankBudget, AKnownStageIsWaitedForNoMore) {
  RankBudget budget = ofRank(0, "default=1GiB,stage1=2GiB");
  EXPECT_FALSE(budget.waitedLongEnough(2, true, kStart));
  EXPECT_EQ(budget.noteFound({1}), Found::kOtherBudget);
  EXPECT_FALSE(budget.waitedLongEnough(3, true, kStart + seconds(1000)));
  EXPECT_FALSE(budget.giveUp());
  EXPECT_EQ(budget.takeDue(), "2GiB");
}

TEST(RankBudget, AStageIsGivenUpOnceAndTakenWhereItIsLearntAfterAll) {
  RankBudget budget = ofRank(0, "default=1GiB,stage1=2GiB");
  EXPECT_TRUE(budget.giveUp());
  EXPECT_FALSE(budget.giveUp());
  EXPECT_FALSE(budget.isOpen());
  EXPECT_EQ(budget.noteFound({1}), Found::kOtherBudget);
  EXPECT_TRUE(budget.isOpen());
  EXPECT_EQ(budget.takeDue(), "2GiB");
  EXPECT_EQ(budget.number(), 1);
}

// --- What is said
// ---------------------------------------------------------------------------------

TEST(RankBudget, AMessageIsNewOnceUnderEachBudget) {
  RankBudget budget = ofRank(0, "default=1GiB,stage1=2GiB");
  EXPECT_TRUE(budget.isNew(Message::kFits));
  EXPECT_TRUE(budget.isNew(Message::kShort));
  EXPECT_FALSE(budget.isNew(Message::kFits));
  budget.forget(Message::kFits);
  EXPECT_TRUE(budget.isNew(Message::kFits));
  EXPECT_FALSE(budget.isNew(Message::kShort));
  budget.beginAnew();
  EXPECT_TRUE(budget.isNew(Message::kFits));
  EXPECT_TRUE(budget.isNew(Message::kShort));
}

TEST(RankBudget, StagesAreListed) {
  EXPECT_EQ(stagesText({3}), "stage 3");
  EXPECT_EQ(stagesText({0, 2, 5}), "stages 0, 2, 5");
}

// --- What is asked for while it runs ------------------------------------------------------------

TEST(RankBudget, WhatIsAskedForHoldsBeforeWhatIsWritten) {
  RankBudget budget{std::nullopt, "1GiB"};
  budget.ask("2GiB");
  EXPECT_TRUE(budget.isOpen());
  EXPECT_EQ(budget.takeDue(), "2GiB");
  EXPECT_EQ(budget.number(), 1);
  budget.ask("");
  EXPECT_EQ(budget.takeDue(), "");
  EXPECT_TRUE(budget.takeBack());
  EXPECT_EQ(budget.takeDue(), "2GiB");
  EXPECT_TRUE(budget.takeBack());
  EXPECT_EQ(budget.takeDue(), "1GiB");
  EXPECT_FALSE(budget.takeBack());
  EXPECT_EQ(budget.takeDue(), std::nullopt);
}

// The stage is learnt after somebody has asked for another budget.
TEST(RankBudget, WhatIsAskedForHoldsBeforeThatOfTheStage) {
  RankBudget budget = ofRank(0, "default=1GiB,stage2=3GiB");
  budget.ask("2GiB");
  EXPECT_EQ(budget.takeDue(), "2GiB");
  EXPECT_FALSE(budget.isOpen());  // whatever the stage is
  EXPECT_FALSE(budget.noteStep(pipelineStep({"PP:2F0"})));
  EXPECT_EQ(budget.takeDue(), std::nullopt);
}

TEST(RankBudget, APauseLiftsWhateverHolds) {
  RankBudget budget = ofRank(0, "default=1GiB,stage2=3GiB");
  budget.pause(true);
  EXPECT_EQ(budget.takeDue(), "");
  budget.pause(true);
  EXPECT_EQ(budget.takeDue(), std::nullopt);
  EXPECT_TRUE(budget.noteStep(pipelineStep({"PP:2F0"})));
  EXPECT_EQ(budget.takeDue(), "");  // learnt, but still paused
  budget.pause(false);
  EXPECT_EQ(budget.takeDue(), "3GiB");
}

// Until a step has shown that the budget can be held.
TEST(RankBudget, APauseComesBackWhereTheRunCannotGoOn) {
  RankBudget budget(std::nullopt, "1GiB");
  EXPECT_FALSE(budget.pauseAgain());  // nobody let it go on
  budget.pause(true);
  EXPECT_EQ(budget.takeDue(), "");
  EXPECT_FALSE(budget.pauseAgain());
  budget.pause(false);
  EXPECT_EQ(budget.takeDue(), "1GiB");
  EXPECT_TRUE(budget.pauseAgain());
  EXPECT_TRUE(budget.isPaused());
  EXPECT_EQ(budget.takeDue(), "");
  budget.pause(false);
  EXPECT_EQ(budget.takeDue(), "1GiB");
  budget.noteHeld();
  EXPECT_FALSE(budget.pauseAgain());
  EXPECT_EQ(budget.takeDue(), std::nullopt);
}

// Without stages too a budget may be due when a step ends: nobody is waited for.
TEST(RankBudget, WaitsForNobodyWhereItHasNoStage) {
  RankBudget budget(std::nullopt, "1GiB");
  budget.ask("2GiB");
  EXPECT_TRUE(budget.isOpen());
  EXPECT_FALSE(budget.waitedLongEnough(1000, true, RankBudget::Time::max()));
}

// 3 GiB hold; of 2 and 1, asked for before a step begins, only the last one comes to hold.
TEST(RankBudget, WhatNeverHeldDoesNotComeBack) {
  RankBudget budget(std::nullopt, "4GiB");
  budget.ask("3GiB");
  EXPECT_EQ(budget.takeDue(), "3GiB");
  budget.ask("2GiB");
  budget.ask("1GiB");
  EXPECT_EQ(budget.takeDue(), "1GiB");
  EXPECT_TRUE(budget.takeBack());
  EXPECT_EQ(budget.takeDue(), "3GiB");
}

}  // namespace
}  // namespace ebbtide::plugin
