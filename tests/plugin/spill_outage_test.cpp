#include "runtime/budget/spill_outage.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

using Step = SpillOutage::Step;

TEST(SpillOutage, BeginsOnceAndIsTakenOnce) {
  SpillOutage outage;
  EXPECT_FALSE(outage.take());
  EXPECT_FALSE(outage.awaitsPlan());
  EXPECT_FALSE(outage.endStep(Step::kOther));
  EXPECT_TRUE(outage.begin());
  EXPECT_FALSE(outage.begin());
  EXPECT_TRUE(outage.take());
  EXPECT_FALSE(outage.take());
  EXPECT_TRUE(outage.awaitsPlan());
}

// One step that held begins the count anew.
TEST(SpillOutage, EndsWhenTooManyStepsInARowDidNotHold) {
  SpillOutage outage;
  outage.begin();
  for (int i = 0; i + 1 < SpillOutage::kMostSteps; ++i) EXPECT_FALSE(outage.endStep(Step::kOther));
  EXPECT_FALSE(outage.endStep(Step::kHeld));
  for (int i = 0; i + 1 < SpillOutage::kMostSteps; ++i) EXPECT_FALSE(outage.endStep(Step::kOther));
  EXPECT_TRUE(outage.endStep(Step::kOther));
  EXPECT_FALSE(outage.awaitsPlan());
  EXPECT_FALSE(outage.endStep(Step::kOther));
}

// Two programs take turns: one holds the budget under its plan, the other one goes over it each
// time. Steps within the budget count in a row alone.
TEST(SpillOutage, EndsWhenTooManyStepsWentOverWhateverCameBetween) {
  SpillOutage outage;
  outage.begin();
  for (int i = 0; i + 1 < SpillOutage::kMostSteps; ++i) {
    EXPECT_FALSE(outage.endStep(Step::kWentOver));
    EXPECT_FALSE(outage.endStep(Step::kHeld));
    EXPECT_FALSE(outage.endStep(Step::kOther));
    EXPECT_FALSE(outage.endStep(Step::kHeld));
  }
  EXPECT_TRUE(outage.endStep(Step::kWentOver));
  EXPECT_FALSE(outage.awaitsPlan());
}

TEST(SpillOutage, EndsWhereThereIsNoPlan) {
  SpillOutage outage;
  EXPECT_FALSE(outage.giveUp());
  outage.begin();
  EXPECT_TRUE(outage.giveUp());
  EXPECT_FALSE(outage.giveUp());
  EXPECT_TRUE(outage.began());
}

}  // namespace
}  // namespace ebbtide::plugin
