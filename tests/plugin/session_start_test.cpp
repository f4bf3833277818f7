// What a step begins with: is it recorded, and which of its saved tensors are ours?
#include "controlled_session.hpp"

namespace ebbtide::plugin {
namespace {

class SessionStartTest : public test::ControlledSession {
 protected:
  // The first that is merely watched: the first three are recorded at least, and more where the
  // budget is not decided by then.
  StepStart firstWatched() {
    StepStart start = session_->beginStep();
    for (int i = 0; i < 20 && start.record_ops; ++i) {
      EXPECT_TRUE(start.hooks);
      EXPECT_EQ(start.least_saved_bytes, 0);
      end(start);
      start = session_->beginStep();
    }
    return start;
  }
};

TEST_F(SessionStartTest, WithoutABudgetAWatchedStepLeavesAllToTorch) {
  begin();
  const StepStart start = firstWatched();
  EXPECT_FALSE(start.record_ops);
  EXPECT_FALSE(start.hooks);
}

// Four times what it needs: no plan is made. What is smaller than 32 KiB is never spilled.
TEST_F(SessionStartTest, UnderABudgetThatFitsAWatchedStepAsksForWhatCanBeSpilled) {
  begin(4 * plain_bytes_);
  const StepStart start = firstWatched();
  EXPECT_FALSE(start.record_ops);
  EXPECT_TRUE(start.hooks);
  EXPECT_EQ(start.least_saved_bytes, 32 << 10);
}

// All that is left of a step says then that it goes on.
TEST_F(SessionStartTest, WhereTensorsOutliveTheirStepsAllAreAskedFor) {
  begin(4 * plain_bytes_);
  end(firstWatched(), /*recorded=*/false);
  session_->course().lateBackwards().note(/*ended_by_hint=*/false);
  const StepStart start = session_->beginStep();
  EXPECT_TRUE(start.hooks);
  EXPECT_EQ(start.least_saved_bytes, 0);
}

// Replays without a plan may read any saved tensor.
TEST_F(SessionStartTest, FromTheFirstShortageOnAllAreAskedFor) {
  begin(4 * plain_bytes_);
  end(firstWatched(), /*recorded=*/false);
  session_->drops().notePressure();
  const StepStart start = session_->beginStep();
  EXPECT_TRUE(start.record_ops);
  EXPECT_TRUE(start.hooks);
  EXPECT_EQ(start.least_saved_bytes, 0);
}

}  // namespace
}  // namespace ebbtide::plugin
