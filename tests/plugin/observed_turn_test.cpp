#include "runtime/steps/observed_turn.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace ebbtide::plugin {
namespace {

using Kind = scheduler::TraceEvent::Kind;

// Of a step in mid-pass: a tensor is saved, an op runs.
std::shared_ptr<EventLog> openLog() {
  auto log = std::make_shared<EventLog>(0);
  log->noteUse();
  log->add(Kind::kOpBegin, 0);
  return log;
}

void runBackward(EventLog& log, std::int64_t passes) {
  for (std::int64_t pass = 0; pass < passes; ++pass) log.add(Kind::kBackwardPass, 0);
}

TEST(ObservedTurn, IsOneStepsAtATime) {
  ObservedTurn turn;
  EXPECT_TRUE(turn.isFree(/*trains=*/false));
  const auto log = openLog(), other = openLog();
  turn.take(log, /*trains=*/true);
  EXPECT_TRUE(turn.isTaken());
  EXPECT_TRUE(turn.isOf(log.get()));
  EXPECT_FALSE(turn.isOf(nullptr));
  EXPECT_FALSE(turn.isFree(/*trains=*/true));
  EXPECT_FALSE(turn.release(nullptr));
  EXPECT_FALSE(turn.release(other));
  EXPECT_TRUE(turn.release(log));
  EXPECT_FALSE(turn.isTaken());
  EXPECT_FALSE(turn.isOf(nullptr));  // nobody's is not the one of a step without a log
}

TEST(ObservedTurn, AThreadThatOnlyLooksOnYieldsItAndTakesNone) {
  ObservedTurn turn;
  turn.take(openLog(), /*trains=*/false);
  EXPECT_FALSE(turn.isFree(/*trains=*/false));
  EXPECT_TRUE(turn.isFree(/*trains=*/true));
}

// 32 passes, then 64: it had ended after all.
TEST(ObservedTurn, AStepThatMayNeverEndHandsItOnLaterOnceOneHasEnded) {
  ObservedTurn turn;
  const auto first = openLog();
  turn.take(first, true);
  runBackward(*first, ObservedTurn::kFewPasses - 1);
  EXPECT_FALSE(turn.isFree(true));
  runBackward(*first, 1);
  EXPECT_TRUE(turn.isFree(true));
  const auto second = openLog();
  turn.take(second, true);
  EXPECT_FALSE(turn.release(first));
  runBackward(*second, ObservedTurn::kFewPasses);
  EXPECT_FALSE(turn.isFree(true));
  runBackward(*second, ObservedTurn::kFewPasses);
  EXPECT_TRUE(turn.isFree(true));
}

// Each look is a step that goes without.
TEST(ObservedTurn, AForwardPassThatManyStepsOvertookHandsItOn) {
  ObservedTurn turn;
  turn.take(openLog(), true);
  for (int step = 1; step < ObservedTurn::kFewPasses; ++step) EXPECT_FALSE(turn.isFree(true));
  EXPECT_TRUE(turn.isFree(true));
  turn.take(openLog(), true);
  EXPECT_FALSE(turn.isFree(true));  // counted anew
}

// Of 16 saved tensors 8 are let go of: the second step that waits has the turn (32 / 16). That pass
// ran backward after all: from then on the fourth one has it (64 / 16).
TEST(ObservedTurn, AForwardPassThatLosesItsResultsHandsItOnSooner) {
  ObservedTurn turn;
  const auto losing = [&turn] {
    const auto log = openLog();
    for (int use = 1; use < 16; ++use) log->noteUse();
    for (int use = 0; use < 8; ++use) log->add(Kind::kRelease, use);
    turn.take(log, /*trains=*/true);
    return log;
  };
  const auto first = losing();
  for (int look = 0; look < 3; ++look) EXPECT_FALSE(turn.isFree(/*trains=*/false)) << look;
  EXPECT_FALSE(turn.isFree(/*trains=*/true));
  EXPECT_TRUE(turn.isFree(/*trains=*/true));
  const auto second = losing();
  runBackward(*first, 1);
  EXPECT_FALSE(turn.release(first));
  for (int step = 1; step < 4; ++step) EXPECT_FALSE(turn.isFree(/*trains=*/true)) << step;
  EXPECT_TRUE(turn.isFree(/*trains=*/true));
}

// A pass of 16 tensors.
void saveTensors(EventLog& log) {
  for (int use = 0; use < 16; ++use) log.noteUse();
}

void readTensors(EventLog& log) {
  for (int use = 0; use < 16; ++use) log.add(Kind::kUnpack, use);
  runBackward(log, 1);
}

void releaseTensors(EventLog& log) {
  for (int use = 0; use < 16; ++use) log.add(Kind::kRelease, use);
}

int looksUntilFree(ObservedTurn& turn) {
  int looks = 1;
  while (!turn.isFree(/*trains=*/true) && looks < 10 * ObservedTurn::kMostPasses) ++looks;
  return looks;
}

// Its tensors are let go of as it runs backward. The first look is at the pass that has just run;
// 32 steps that begin after it are too many.
TEST(ObservedTurn, AStepThatRanBackwardIsWaitedForThoughItLosesTensors) {
  ObservedTurn turn;
  const auto log = openLog();
  saveTensors(*log);
  turn.take(log, /*trains=*/true);
  readTensors(*log);
  releaseTensors(*log);
  EXPECT_EQ(looksUntilFree(turn), 1 + ObservedTurn::kFewPasses);
}

// Its five tries are too short (32, 64, 128, 256, 512 looks); then 1,000 looks are few.
TEST(ObservedTurn, AStepThatManyOvertakeIsWaitedForLongerEachTimeThatItEnds) {
  ObservedTurn turn;
  const auto slow = [&turn] {
    const auto log = openLog();
    turn.take(log, /*trains=*/true);
    runBackward(*log, 1);
    EXPECT_FALSE(turn.isFree(/*trains=*/true));
    return log;
  };
  for (std::int64_t looks = ObservedTurn::kFewPasses; looks < ObservedTurn::kMostPasses;
       looks *= 2) {
    const auto log = slow();
    EXPECT_EQ(looksUntilFree(turn), looks);
    turn.take(openLog(), /*trains=*/true);
    EXPECT_FALSE(turn.release(log));
  }
  slow();
  for (int look = 0; look < 1000; ++look) EXPECT_FALSE(turn.isFree(/*trains=*/true)) << look;
}

// An actor that warmed up: 16 tensors are read once, then 16 a pass are let go of unread. After two
// such passes more than half of all are (32 of 49). Then two looks are enough, though the first one
// sees a new pass.
TEST(ObservedTurn, AThreadThatRanBackwardOnceAndOnlyForwardSinceHandsItOn) {
  ObservedTurn turn;
  const auto log = openLog();
  turn.take(log, /*trains=*/true);
  saveTensors(*log);
  readTensors(*log);
  releaseTensors(*log);
  for (int pass = 0; pass < 2; ++pass) {
    saveTensors(*log);
    releaseTensors(*log);
  }
  EXPECT_EQ(looksUntilFree(turn), 2);
}

// Its first 16 tensors are read, and kept: of what three more passes let go of, 48, less what was
// read, 32 of 65 are less than half. After four 48 of 81 are more.
TEST(ObservedTurn, AThreadThatKeepsAGraphThatRanBackwardHandsItOn) {
  ObservedTurn turn;
  const auto log = openLog();
  turn.take(log, /*trains=*/true);
  saveTensors(*log);
  readTensors(*log);
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_FALSE(turn.isFree(/*trains=*/true)) << pass;
    saveTensors(*log);
    releaseTensors(*log);
  }
  EXPECT_FALSE(turn.isFree(/*trains=*/true));
  saveTensors(*log);
  releaseTensors(*log);
  EXPECT_TRUE(turn.isFree(/*trains=*/true));
}

// And runs nothing more: no tensor is let go of, and it does not rest.
TEST(ObservedTurn, AKeptGraphOfAnIdleThreadHandsItOn) {
  ObservedTurn turn;
  const auto log = openLog();
  turn.take(log, /*trains=*/true);
  saveTensors(*log);
  readTensors(*log);
  EXPECT_FALSE(turn.isFree(/*trains=*/true));
  EXPECT_EQ(looksUntilFree(turn), ObservedTurn::kFewPasses);
}

// One pass in three looks: of 48 looks 32 see no new one.
TEST(ObservedTurn, AThreadThatSeldomRunsBackwardHandsItOn) {
  ObservedTurn turn;
  const auto log = openLog();
  turn.take(log, /*trains=*/true);
  for (int look = 1; look < 48; ++look) {
    if (look % 3 == 1) runBackward(*log, 1);
    EXPECT_FALSE(turn.isFree(/*trains=*/true)) << look;
  }
  EXPECT_TRUE(turn.isFree(/*trains=*/true));
}

}  // namespace
}  // namespace ebbtide::plugin
