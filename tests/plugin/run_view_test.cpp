#include "runtime/run_view.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

TEST(RunView, NamesTheFirstStepThatHasNotBegun) {
  RunView run;
  run.steps.count = 4;
  EXPECT_EQ(run.nextStep(), 5);
  run.steps.is_open = true;
  EXPECT_EQ(run.nextStep(), 6);
}

// Steps of two programs take 2 s and 4 s. We added 1 of the 4 s: 4 - 1 = 3. The third program has
// only been recorded.
TEST(RunView, AProgramsStepsAreItsMeasure) {
  RunView run;
  run.steps.time = RecentSteps::Medians{.seconds = 9, .plain_seconds = 8};
  run.steps.recent.add({.number = 1, .program = 1, .seconds = 2}, 0);
  run.steps.recent.add({.number = 2, .program = 2, .seconds = 4, .added_seconds = 1}, 0);
  run.steps.recorded.resize(1);
  EXPECT_DOUBLE_EQ(run.plainSeconds(2, 7), 8);  // one program runs: all steps are its
  run.steps.recorded.resize(2);
  EXPECT_DOUBLE_EQ(run.plainSeconds(1, 7), 2);
  EXPECT_DOUBLE_EQ(run.plainSeconds(2, 7), 3);
  EXPECT_DOUBLE_EQ(run.plainSeconds(3, 7), 7);
}

}  // namespace
}  // namespace ebbtide::plugin
