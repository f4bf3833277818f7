#include "plan/planned_values.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;

// Value 0 is a graph input, which a replay of event 1 reads. Op 0 makes value 1, that a replay
// gives again; op 1 makes value 2, that is fetched from the host twice.
class PlannedValuesTest : public testing::Test {
 protected:
  PlannedValuesTest() {
    plan_.values.producer = {kNone, 0, 1};
    plan_.values.restored_later = {false, true, true};
    plan_.values.fetches = {0, 0, 2};
    plan_.values.on_host = {false, false, true};
    plan_.values.last_replay_read = {1, kNone, kNone};
    plan_.values.codec = {{100}, {200}, {300}};
    values_.follow(&plan_);
  }

  // As the follower adds what this op of the plan makes; kNone: a graph input.
  void add(OpId planned_op) { values_.add(values_.isNextOf(planned_op)); }

  Plan plan_;
  PlannedValues values_;
};

TEST_F(PlannedValuesTest, ComeInThePlansOrder) {
  EXPECT_TRUE(values_.isNextOf(kNone));
  EXPECT_FALSE(values_.isNextOf(0));  // value 0 has not come
  for (const OpId maker : {kNone, 0, 1}) add(maker);
  for (const ValueId value : {0, 1, 2}) {
    EXPECT_EQ(values_.planned(value), value);
    EXPECT_EQ(values_.step(value), value);
  }
  EXPECT_FALSE(values_.differ());
  EXPECT_FALSE(values_.isNextOf(1));      // all have come
  EXPECT_FALSE(values_.isNextOf(kNone));  // though none is what follows
}

// The step's 1 is an input more: its 2 is the plan's 1.
TEST_F(PlannedValuesTest, GoOnAfterWhatIsUnplanned) {
  for (const OpId maker : {kNone, kNone, 0}) add(maker);
  EXPECT_TRUE(values_.unplanned(1));
  EXPECT_EQ(values_.planned(2), 1);
  EXPECT_EQ(values_.step(1), 2);
  EXPECT_EQ(values_.step(2), kNone);  // has not come
  EXPECT_TRUE(values_.differ());
}

TEST_F(PlannedValuesTest, AreTakenBackWithAllAfterThem) {
  for (const OpId maker : {kNone, 0, 1}) add(maker);
  values_.unplanFrom(1);
  EXPECT_EQ(values_.planned(0), 0);
  EXPECT_TRUE(values_.unplanned(1));
  EXPECT_TRUE(values_.unplanned(2));
  EXPECT_TRUE(values_.isNextOf(0));  // it may still come
}

TEST_F(PlannedValuesTest, AreWhatThePlanSays) {
  for (const OpId maker : {kNone, 0, 1}) add(maker);
  EXPECT_TRUE(values_.marked(1, &Plan::Values::restored_later));
  EXPECT_FALSE(values_.marked(0, &Plan::Values::restored_later));
  EXPECT_TRUE(values_.isRestoredLater(2));
  EXPECT_FALSE(values_.isOnHost(1));
  EXPECT_TRUE(values_.isOnHost(2));
  EXPECT_EQ(values_.fetchesOf(1), 0);
  EXPECT_EQ(values_.fetchesOf(2), 2);
  EXPECT_EQ(values_.lastReplayReading(0), 1);
  EXPECT_EQ(values_.lastReplayReading(1), kNone);
  EXPECT_EQ(values_.codecOf(2).block_bytes, 300);
}

TEST_F(PlannedValuesTest, OfWhatIsUnplannedThePlanSaysNothing) {
  for (const OpId maker : {kNone, kNone, 0, 1}) add(maker);  // 1 is
  EXPECT_FALSE(values_.marked(1, &Plan::Values::restored_later));
  EXPECT_EQ(values_.fetchesOf(1), 0);
  EXPECT_EQ(values_.lastReplayReading(1), kNone);
  EXPECT_TRUE(values_.marked(2, &Plan::Values::restored_later));  // the plan's 1
  EXPECT_TRUE(values_.unplanned(4));                              // has not come
  EXPECT_EQ(values_.fetchesOf(4), 0);
}

TEST_F(PlannedValuesTest, WithoutAPlanNoneIsPlanned) {
  add(kNone);
  values_.follow(nullptr);
  EXPECT_TRUE(values_.unplanned(0));
  EXPECT_FALSE(values_.isNextOf(kNone));
  values_.add(true);  // as a plan's, though there is none
  EXPECT_TRUE(values_.unplanned(0));
  EXPECT_FALSE(values_.marked(0, &Plan::Values::on_host));
  EXPECT_EQ(values_.fetchesOf(0), 0);
  EXPECT_EQ(values_.lastReplayReading(0), kNone);
}

TEST_F(PlannedValuesTest, AnotherPlanBeginsAnew) {
  for (const OpId maker : {kNone, kNone, 0}) add(maker);
  Plan other;
  other.values.producer = {kNone};
  other.values.fetches = {7};
  values_.follow(&other);
  EXPECT_FALSE(values_.differ());
  EXPECT_TRUE(values_.unplanned(0));
  add(kNone);
  EXPECT_EQ(values_.fetchesOf(0), 7);
}

}  // namespace
}  // namespace ebbtide::plugin
