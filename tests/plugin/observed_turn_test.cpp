#include "runtime/observed_turn.hpp"

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

// Its tensors are let go of as it runs backward.
TEST(ObservedTurn, AStepThatRanBackwardIsWaitedForThoughItLosesTensors) {
  ObservedTurn turn;
  const auto log = openLog();
  for (int use = 1; use < 16; ++use) log->noteUse();
  turn.take(log, /*trains=*/true);
  for (int use = 0; use < 16; ++use) {
    log->add(Kind::kUnpack, use);
    log->add(Kind::kRelease, use);
  }
  for (int step = 0; step < 4; ++step) EXPECT_FALSE(turn.isFree(/*trains=*/true)) << step;
}

}  // namespace
}  // namespace ebbtide::plugin
