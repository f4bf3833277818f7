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

}  // namespace
}  // namespace ebbtide::plugin
