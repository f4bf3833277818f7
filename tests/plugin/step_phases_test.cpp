#include "observe/step_phases.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ebbtide::plugin {
namespace {

class StepPhasesTest : public testing::Test {
 protected:
  CurrentConfig config_;
  TrainedMemory memory_{config_};
  RunTrace trace_{config_, memory_, [](const std::string&) {}};
  StepPhases phases_{trace_, 1};
};

TEST_F(StepPhasesTest, WaitsForItsFirstOp) {
  EXPECT_TRUE(phases_.paused());
  EXPECT_EQ(phases_.forwardPhases(), 0);
  phases_.resume();
  EXPECT_FALSE(phases_.paused());
  phases_.resume();  // it runs
  EXPECT_EQ(phases_.forwardPhases(), 1);
}

// Gradient accumulation: forward, backward, forward, backward.
TEST_F(StepPhasesTest, CountsForwardPhases) {
  phases_.resume();
  EXPECT_FALSE(phases_.backwardSeen());
  EXPECT_TRUE(phases_.noteBackward());
  EXPECT_FALSE(phases_.noteBackward());  // the first was before
  EXPECT_TRUE(phases_.paused());
  phases_.resume();
  EXPECT_FALSE(phases_.noteBackward());
  EXPECT_EQ(phases_.forwardPhases(), 2);
  EXPECT_TRUE(phases_.backwardSeen());
}

// A pass inside another has a higher number; the outer one's next node begins none.
TEST_F(StepPhasesTest, APassBeginsOnce) {
  EXPECT_FALSE(phases_.beginsPass(-1));  // none runs
  EXPECT_TRUE(phases_.beginsPass(0));
  EXPECT_FALSE(phases_.beginsPass(0));
  EXPECT_TRUE(phases_.beginsPass(2));
  EXPECT_FALSE(phases_.beginsPass(1));
}

TEST_F(StepPhasesTest, EndsByItselfOrByAHint) {
  EXPECT_FALSE(phases_.finished());
  phases_.finish(false);
  EXPECT_TRUE(phases_.finished());
  EXPECT_FALSE(phases_.finishedByHint());
  phases_.finish(true);
  EXPECT_TRUE(phases_.finished());
  EXPECT_TRUE(phases_.finishedByHint());
}

}  // namespace
}  // namespace ebbtide::plugin
