#include "runtime/steps/taken_steps.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

class TakenStepsTest : public testing::Test {
 protected:
  void take(std::uint64_t program, double seconds) {
    taken_.end({}, {.number = ++number_, .program = program, .seconds = seconds});
  }
  double secondsOf(const TakenSteps::Measure& of) const {
    return taken_.stepTime(of).value_or(RecentSteps::Medians{}).seconds;
  }

  TakenSteps taken_;
  std::int64_t number_ = 0;
};

TEST_F(TakenStepsTest, BeforeTheFirstEndsNoneIsKnown) {
  EXPECT_FALSE(taken_.stepTime({}).has_value());
}

// As a loader whose last batch is short gives them: 40 s, and 8 s in each eighth step, the last
// one. From step 11 on the main program has another plan, with which its steps take 50 s.
TEST_F(TakenStepsTest, AStepOfAnotherProgramIsNoMeasure) {
  for (int i = 1; i <= 16; ++i) take(i % 8 == 0 ? 8 : 7, i % 8 == 0 ? 8 : i < 11 ? 40 : 50);
  EXPECT_EQ(secondsOf({.program = 7, .from_step = 1, .has_plan = true}), 40);  // of 9 and 5
  EXPECT_EQ(secondsOf({.program = 7, .from_step = 11, .has_plan = true}), 50);
  EXPECT_EQ(secondsOf({.program = 8, .from_step = 1, .has_plan = true}), 8);
}

// Without a plan steps are not recorded for long, and nobody knows of which program they are.
TEST_F(TakenStepsTest, StepsThatNobodyKnowsCountWhereThereIsNoPlan) {
  for (const double seconds : {90, 90}) take(7, seconds);
  for (const double seconds : {5, 5, 5}) take(0, seconds);
  EXPECT_EQ(secondsOf({.program = 7, .has_plan = false}), 5);
  EXPECT_EQ(secondsOf({.program = 7, .has_plan = true}), 90);
}

// The upper one of four: 3.
TEST_F(TakenStepsTest, WhereNoStepOfItIsLeftAllAreTheMeasure) {
  for (const double seconds : {1, 2, 3, 4}) take(8, seconds);
  EXPECT_EQ(secondsOf({.program = 7, .from_step = 1, .has_plan = true}), 3);
}

}  // namespace
}  // namespace ebbtide::plugin
