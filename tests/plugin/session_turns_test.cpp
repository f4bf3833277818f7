// Which step observes the allocator where several threads train.
#include <gtest/gtest.h>

#include "controlled_session.hpp"

namespace ebbtide::plugin {
namespace {

using Kind = scheduler::TraceEvent::Kind;

using SessionTurnsTest = test::ControlledSession;

void runBackward(const StepStart& start, std::int64_t passes) {
  start.log->noteUse();
  start.log->add(Kind::kOpBegin, 0);
  for (std::int64_t pass = 0; pass < passes; ++pass) start.log->add(Kind::kBackwardPass, 0);
}

// A step that runs backward for ever, as one that draws saliency maps does.
TEST_F(SessionTurnsTest, AStepThatNeverEndsHandsItsTurnOn) {
  Session& session = begin(plain_bytes_ / 2);
  const auto endless = session.beginStep();
  ASSERT_NE(endless.log, nullptr);
  runBackward(endless, 31);
  const auto early = session.beginStep();
  EXPECT_EQ(early.log, nullptr);
  end(early, false);
  runBackward(endless, 1);
  const auto next = session.beginStep();
  EXPECT_NE(next.log, nullptr);
  end(next);
  EXPECT_FALSE(session.course().releaseLog(endless.log));
}

// As one that serves beside the training, and forgot no_grad, leaves behind: its result is thrown
// away, and its thread's next op begins another.
TEST_F(SessionTurnsTest, AForwardPassThatIsOverHandsItsTurnOn) {
  Session& session = begin(plain_bytes_ / 2);
  const auto forward = session.beginStep();
  ASSERT_NE(forward.log, nullptr);
  forward.log->noteUse();
  forward.log->add(Kind::kOpBegin, 0);
  const auto early = session.beginStep();
  EXPECT_EQ(early.log, nullptr);
  end(early, false);
  forward.log->rest();
  EXPECT_NE(session.beginStep().log, nullptr);
  EXPECT_FALSE(session.course().releaseLog(forward.log));
}

// One that keeps its results until the next ones are there never rests.
TEST_F(SessionTurnsTest, AForwardPassThatManyStepsOvertookHandsItsTurnOn) {
  Session& session = begin(plain_bytes_ / 2);
  const auto forward = session.beginStep();
  forward.log->noteUse();
  forward.log->add(Kind::kOpBegin, 0);
  for (int i = 0; i < 31; ++i) {
    const auto waiting = session.beginStep();
    ASSERT_EQ(waiting.log, nullptr) << i;
    end(waiting, false);
  }
  EXPECT_NE(session.beginStep().log, nullptr);
}

// What it lets go of tells: it has run nothing backward, and 8 of 16 tensors are gone.
TEST_F(SessionTurnsTest, AForwardPassThatLosesItsResultsHandsItsTurnOnSooner) {
  Session& session = begin(plain_bytes_ / 2);
  const auto forward = session.beginStep();
  ASSERT_NE(forward.log, nullptr);
  forward.log->add(Kind::kOpBegin, 0);
  for (int use = 0; use < 16; ++use) forward.log->noteUse();
  for (int use = 0; use < 8; ++use) forward.log->add(Kind::kRelease, use);
  const auto waiting = session.beginStep();
  EXPECT_EQ(waiting.log, nullptr);
  end(waiting, false);
  EXPECT_NE(session.beginStep().log, nullptr);
}

// After such a pass a thread is known by it: its turn is anybody's, and it takes none.
TEST_F(SessionTurnsTest, AThreadThatOnlyLooksOnYieldsItsTurn) {
  Session& session = begin(plain_bytes_ / 2);
  const auto looks = session.beginStep(false);
  ASSERT_NE(looks.log, nullptr);
  looks.log->noteUse();
  looks.log->add(Kind::kOpBegin, 0);  // in mid-pass
  const auto trains = session.beginStep();
  ASSERT_NE(trains.log, nullptr);
  EXPECT_FALSE(session.course().releaseLog(looks.log));
  EXPECT_EQ(session.beginStep(false).log, nullptr);  // nothing of `trains` is saved yet
  end(trains);
  // It was no sign of steps that take long: the next one is waited for no longer.
  const auto endless = session.beginStep();
  runBackward(endless, 32);
  EXPECT_NE(session.beginStep().log, nullptr);
}

// Steps that wait for their turn use nothing up: however many they are, the next one is recorded.
TEST_F(SessionTurnsTest, StepsThatCouldNotBeRecordedAreStillToBe) {
  Session& session = begin(plain_bytes_ / 2);
  const auto endless = session.beginStep();
  ASSERT_NE(endless.log, nullptr);
  runBackward(endless, 31);
  for (int i = 0; i < 30; ++i) {
    const auto waiting = session.beginStep();
    ASSERT_EQ(waiting.log, nullptr) << i;
    end(waiting, false);
  }
  runBackward(endless, 1);
  EXPECT_NE(session.beginStep().log, nullptr);
}

// It did end: it may have been one with many microbatches, which is waited for longer.
TEST_F(SessionTurnsTest, AStepThatEndsAfterAllIsWaitedForLonger) {
  Session& session = begin(plain_bytes_ / 2);
  const auto first = session.beginStep();
  runBackward(first, 32);
  end(session.beginStep());
  end(first, false);
  const auto second = session.beginStep();
  ASSERT_NE(second.log, nullptr);
  runBackward(second, 63);
  const auto waiting = session.beginStep();
  EXPECT_EQ(waiting.log, nullptr);
  end(waiting, false);
  runBackward(second, 1);
  EXPECT_NE(session.beginStep().log, nullptr);
}

}  // namespace
}  // namespace ebbtide::plugin
