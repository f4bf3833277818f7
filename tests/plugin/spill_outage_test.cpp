#include "runtime/spill_outage.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

TEST(SpillOutage, BeginsOnceAndIsTakenOnce) {
  SpillOutage outage;
  EXPECT_FALSE(outage.take());
  EXPECT_FALSE(outage.awaitsPlan());
  EXPECT_FALSE(outage.endStep(false));
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
  for (int i = 0; i + 1 < SpillOutage::kMostSteps; ++i) EXPECT_FALSE(outage.endStep(false));
  EXPECT_FALSE(outage.endStep(true));
  for (int i = 0; i + 1 < SpillOutage::kMostSteps; ++i) EXPECT_FALSE(outage.endStep(false));
  EXPECT_TRUE(outage.endStep(false));
  EXPECT_FALSE(outage.awaitsPlan());
  EXPECT_FALSE(outage.endStep(false));
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
