#include "runtime/budget/advised_stop.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

using std::chrono::seconds;

const AdvisedStop::Time kStart{};

TEST(AdvisedStop, ARankThatFitsGoesOn) {
  AdvisedStop stop;
  stop.noteTold(true);
  stop.noteRoundEnded();
  stop.advise(" Nobody asked.");
  EXPECT_EQ(stop.waitUntil(kStart), std::nullopt);
  stop.decide(kStart);
  EXPECT_FALSE(stop.requested());
  EXPECT_EQ(stop.message(), "");
}

TEST(AdvisedStop, OutsideOfAPipelineItStopsAtOnce) {
  AdvisedStop stop;
  stop.cannotFit("Too small.");
  EXPECT_FALSE(stop.requested());  // best-effort trains on
  stop.stopAtOnce();
  EXPECT_TRUE(stop.requested());
  EXPECT_FALSE(stop.awaits());
  EXPECT_EQ(stop.message(), "Too small.");
}

// It cannot fit in the first step, tells in the second one, and waits there for the round's end.
TEST(AdvisedStop, InAPipelineItStopsWithTheAdviceOfItsRound) {
  AdvisedStop stop;
  stop.cannotFit("Too small.");
  stop.stopWhenAdvised(kStart);
  EXPECT_TRUE(stop.awaits());
  EXPECT_EQ(stop.waitUntil(kStart), std::nullopt);  // nobody was told yet: nothing would come
  stop.decide(kStart);
  EXPECT_FALSE(stop.requested());
  stop.noteTold(true);
  EXPECT_EQ(stop.waitUntil(kStart + seconds(1)), kStart + seconds(1 + 5));
  stop.advise(" Rank 0 could help.");
  stop.noteRoundEnded();
  EXPECT_TRUE(stop.advised());
  stop.decide(kStart + seconds(1));
  EXPECT_TRUE(stop.requested());
  EXPECT_EQ(stop.message(), "Too small. Rank 0 could help.");
  EXPECT_EQ(stop.waitUntil(kStart + seconds(2)), std::nullopt);
}

// 5 s in each step, and 60 s in all: of the step that begins to wait at 58 s 2 s are left.
TEST(AdvisedStop, ItWaitsForNoMoreThanAMinute) {
  AdvisedStop stop;
  stop.stopWhenAdvised(kStart);
  stop.noteTold(true);
  EXPECT_EQ(stop.waitUntil(kStart + seconds(55)), kStart + seconds(60));
  EXPECT_EQ(stop.waitUntil(kStart + seconds(58)), kStart + seconds(60));
  stop.stopWhenAdvised(kStart + seconds(58));  // found again in the next step: no new minute
  stop.decide(kStart + seconds(59));
  EXPECT_FALSE(stop.requested());
  stop.decide(kStart + seconds(60));
  EXPECT_TRUE(stop.requested());
}

TEST(AdvisedStop, ARankThatNobodyHearsIsAdvisedByNobody) {
  AdvisedStop stop;
  stop.stopWhenAdvised(kStart);
  stop.noteTold(false);
  EXPECT_TRUE(stop.advised());
  stop.decide(kStart);
  EXPECT_TRUE(stop.requested());
}

// Told before it was known that it cannot fit; its round has ended by then.
TEST(AdvisedStop, ARoundThatEndedBeforeCounts) {
  AdvisedStop stop;
  stop.noteTold(true);
  stop.noteRoundEnded();
  stop.stopWhenAdvised(kStart);
  stop.decide(kStart);
  EXPECT_TRUE(stop.requested());
}

// The first round told it other stages with the same budget: what it told holds, the second round
// advises.
TEST(AdvisedStop, ARoundAboutOtherStagesAdvisesNobody) {
  AdvisedStop stop;
  stop.stopWhenAdvised(kStart);
  stop.noteTold(true);
  stop.noteRoundEnded();
  stop.awaitNextRound();
  EXPECT_TRUE(stop.told());
  stop.decide(kStart);
  EXPECT_FALSE(stop.requested());
  stop.noteRoundEnded();
  stop.decide(kStart);
  EXPECT_TRUE(stop.requested());
}

TEST(AdvisedStop, ARankThatTellsAnewIsNotAdvisedByWhatItTold) {
  AdvisedStop stop;
  stop.noteTold(false);
  stop.withdraw();
  EXPECT_FALSE(stop.told());
  EXPECT_FALSE(stop.advised());
  stop.stopWhenAdvised(kStart);
  EXPECT_EQ(stop.waitUntil(kStart), std::nullopt);
  stop.decide(kStart + seconds(1));
  EXPECT_FALSE(stop.requested());
}

// The advice, and the minute, were for the budget before.
TEST(AdvisedStop, UnderAnotherBudgetItMayFit) {
  AdvisedStop stop;
  stop.cannotFit("Too small.");
  stop.stopWhenAdvised(kStart);
  stop.noteTold(true);
  stop.advise(" Rank 0 could help.");
  stop.beginAnew();
  EXPECT_FALSE(stop.awaits());
  EXPECT_FALSE(stop.told());
  stop.noteRoundEnded();
  stop.decide(kStart + seconds(61));
  EXPECT_FALSE(stop.requested());
  stop.cannotFit("Still too small.");
  EXPECT_EQ(stop.message(), "Still too small.");
}

// It waited to be advised when it was paused: nothing stops it while it has no budget.
TEST(AdvisedStop, APauseIsNoTimeToStop) {
  AdvisedStop stop;
  stop.cannotFit("Too small.");
  stop.stopWhenAdvised(kStart);
  stop.noteTold(true);
  stop.standDown();
  EXPECT_FALSE(stop.awaits());
  EXPECT_TRUE(stop.told());
  stop.decide(kStart + seconds(61));
  EXPECT_FALSE(stop.requested());
}

// Only an error that the program got can be one that it caught.
TEST(AdvisedStop, WhatGoesOnHasMetTheStop) {
  AdvisedStop stop;
  stop.cannotFit("Too small.");
  stop.stopAtOnce();
  EXPECT_FALSE(stop.raised());
  stop.noteRaised();
  EXPECT_TRUE(stop.raised());
  stop.goOn();
  EXPECT_FALSE(stop.requested());
  EXPECT_FALSE(stop.raised());
}

// The second recorded step is judged too: what was said of the first one gives way, the advice
// stays.
TEST(AdvisedStop, ANewerMessageKeepsTheAdvice) {
  AdvisedStop stop;
  stop.cannotFit("Too small.");
  stop.stopWhenAdvised(kStart);
  stop.advise(" Rank 0 could help.");
  stop.cannotFit("Much too small.");
  EXPECT_EQ(stop.message(), "Much too small. Rank 0 could help.");
}

}  // namespace
}  // namespace ebbtide::plugin
