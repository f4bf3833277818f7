#include "plan/plan_follower.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;
using scheduler::Step;
using Inserted = PlanFollower::Inserted;

constexpr bool kKept = true;

//   op 0 (10) ─► value 1    op 1 (11) ─► value 2    op 2 (12): no value; value 0 is a graph input
//
// Use 0 is of value 1, use 1 of value 2, use 2 of value 2 too and never unpacked. After op 1 value
// 1 goes; op 0 runs again for event 1, which unpacks use 0 after event 0 unpacked use 1. Value 2 is
// fetched from the host twice.
std::shared_ptr<Plan> smallPlan(bool trusted = true) {
  auto plan = std::make_shared<Plan>();
  plan->ops.signatures = {10, 11, 12};
  plan->ops.outputs = {1, 1, 0};
  plan->ops.replayed = {true, false, false};
  plan->ops.drops_after = {{}, {1}, {}};
  plan->values.producer = {kNone, 0, 1};
  plan->values.previous_epoch = {kNone, kNone, 1};
  plan->values.restored_later = {false, true, true};
  plan->values.fetches = {0, 0, 2};
  plan->values.on_host = {false, false, true};
  plan->values.last_replay_read = {1, kNone, kNone};
  plan->values.codec = {{100}, {200}, {300}};
  plan->uses.value = {1, 2, 2};
  plan->uses.events = {{1}, {0}, {}};
  plan->events.resize(2);
  plan->events[0].drops = {2};
  plan->events[1].prelude = {{Step::Kind::kRun, 0}, {Step::Kind::kDrop, 1}};
  plan->predicted.drop_bytes = 500;
  plan->trusted = trusted;
  return plan;
}

PlanFollower& following(PlanFollower& follower, bool trusted = true) {
  follower.follow(smallPlan(trusted));
  return follower;
}

// An op that reads nothing new and gives one value, as the executor tells of it.
void runOp(PlanFollower& follower, std::uint64_t signature) {
  const bool planned = follower.isNextOp(signature, signature, false);
  follower.addOp(planned);
}

TEST(PlanFollower, WithoutAPlanEverythingIsKept) {
  PlanFollower follower;
  follower.follow(nullptr);
  follower.addValue(kNone);
  EXPECT_FALSE(follower.addUse(0, true));
  EXPECT_FALSE(follower.isNextOp(10, 10, false));
  EXPECT_FALSE(follower.hasPlan());
  EXPECT_TRUE(follower.keepsAll());
  EXPECT_FALSE(follower.followed());
  EXPECT_FALSE(follower.follows());
  EXPECT_FALSE(follower.leave());
  EXPECT_FALSE(follower.offPlan());  // there is none that it could have left
  EXPECT_FALSE(follower.replayReads(0, true));
  EXPECT_EQ(follower.endEvent(), nullptr);
  EXPECT_FALSE(follower.doesMore());
}

TEST(PlanFollower, AVerificationKeepsAll) {
  PlanFollower follower;
  following(follower, false);
  EXPECT_TRUE(follower.verifies());
  EXPECT_TRUE(follower.keepsAll());
  following(follower, true);
  EXPECT_FALSE(follower.verifies());
  EXPECT_FALSE(follower.keepsAll());
}

TEST(PlanFollower, APlanThatIsTrustedMeanwhileIsVerifiedToTheEnd) {
  const auto plan = smallPlan(false);
  PlanFollower follower;
  follower.follow(plan);
  plan->trusted = true;  // by another step
  EXPECT_TRUE(follower.verifies());
  EXPECT_TRUE(follower.keepsAll());
}

TEST(PlanFollower, AnOpIsThePlansWhereItsSignatureIsAndItMayRunAgain) {
  PlanFollower follower;
  following(follower);
  EXPECT_FALSE(follower.isNextOp(11, 11, false));  // the second one
  EXPECT_FALSE(follower.isNextOp(10, 10, kKept));  // the plan runs it again
  EXPECT_TRUE(follower.isNextOp(10, 10, false));
  runOp(follower, 10);
  EXPECT_TRUE(follower.isNextOp(11, 11, kKept));  // that one it does not
  EXPECT_EQ(follower.nextOp(), 1);
  EXPECT_EQ(follower.opsCome(), 1);
}

// Once numbers differ, the signature by the plan's numbers counts.
TEST(PlanFollower, AfterAnInsertedOpTheAlignedSignatureCounts) {
  PlanFollower follower;
  following(follower);
  runOp(follower, 10);
  runOp(follower, 99);
  EXPECT_TRUE(follower.doesMore());
  EXPECT_FALSE(follower.isNextOp(11, 77, false));
  EXPECT_TRUE(follower.isNextOp(77, 11, false));
  EXPECT_EQ(follower.plannedOp(1), kNone);
}

TEST(PlanFollower, TooManyInsertedOpsInARowAreAnotherProgram) {
  PlanFollower follower;
  following(follower);
  runOp(follower, 10);
  follower.addValue(0);
  EXPECT_EQ(follower.noteInserted(), Inserted::kFirst);
  for (int more = 1; more < PlanFollower::kMostInserted; ++more)
    EXPECT_EQ(follower.noteInserted(), Inserted::kMore);
  follower.passOp(0);  // one of the plan's: the row is over
  for (int op = 0; op < PlanFollower::kMostInserted; ++op)
    EXPECT_NE(follower.noteInserted(), Inserted::kTooMany);
  EXPECT_EQ(follower.noteInserted(), Inserted::kTooMany);
}

TEST(PlanFollower, AFirstOpOfAnotherProgramIsTooMuch) {
  PlanFollower follower;
  following(follower);
  runOp(follower, 99);
  EXPECT_EQ(follower.noteInserted(), Inserted::kTooMany);
}

TEST(PlanFollower, DropsComeAfterTheOpThatGaveWhatWasPlanned) {
  PlanFollower follower;
  following(follower);
  follower.addValue(kNone);
  runOp(follower, 10);
  follower.addValue(0);
  EXPECT_TRUE(follower.gaveAsPlanned(0, false, {1}));
  EXPECT_FALSE(follower.gaveAsPlanned(0, kKept, {1}));   // found out while it ran
  EXPECT_FALSE(follower.gaveAsPlanned(0, false, {}));    // less
  EXPECT_FALSE(follower.gaveAsPlanned(0, false, {17}));  // something that the plan does not know
  EXPECT_TRUE(follower.passOp(0).empty());
  runOp(follower, 11);
  EXPECT_EQ(follower.passOp(1), std::vector<ValueId>{1});
}

TEST(PlanFollower, ValuesAreThePlansByWhatMakesThem) {
  PlanFollower follower;
  following(follower);
  const PlannedValues& values = follower.values();
  follower.addValue(kNone);
  EXPECT_EQ(values.planned(0), 0);
  follower.addValue(kNone);  // a graph input more, where an op's value is expected
  EXPECT_TRUE(values.unplanned(1));
  runOp(follower, 10);
  runOp(follower, 99);
  follower.addValue(1);  // of an op that the plan does not know
  EXPECT_TRUE(values.unplanned(2));
  follower.addValue(0);
  EXPECT_EQ(values.planned(3), 1);
  EXPECT_EQ(values.step(1), 3);
}

TEST(PlanFollower, WhatAnotherOpMakesIsNoGraphInputOfThePlan) {
  PlanFollower follower;
  following(follower);
  runOp(follower, 99);
  follower.addValue(0);
  EXPECT_TRUE(follower.values().unplanned(0));
}

// Value 0 is read by a replay of event 1: until that is over, and for ever where any pass may come.
TEST(PlanFollower, ReplaysToComeReadTheirInputs) {
  PlanFollower follower;
  following(follower);
  follower.values().add(true);
  follower.values().add(true);
  follower.addValue(kNone);
  EXPECT_TRUE(follower.replayReads(0, false));
  EXPECT_FALSE(follower.replayReads(1, true));  // by none
  EXPECT_FALSE(follower.replayReads(2, true));  // not the plan's
  for (const int event : {0, 1}) {
    EXPECT_TRUE(follower.replayReads(0, false));
    follower.cursor().begin(event);
    follower.cursor().passPrelude();
  }
  EXPECT_FALSE(follower.replayReads(0, false));
  EXPECT_TRUE(follower.replayReads(0, true));
  follower.leave();
  EXPECT_TRUE(follower.replayReads(0, false));
}

TEST(PlanFollower, UsesJoinInTheOrderOfThePlan) {
  PlanFollower follower;
  following(follower);
  for (int value = 0; value < 3; ++value) follower.values().add(true);
  EXPECT_TRUE(follower.expectsUses());
  EXPECT_FALSE(follower.addUse(2, true));   // of value 1 is the first
  EXPECT_FALSE(follower.addUse(1, false));  // by an op that is not the plan's
  EXPECT_TRUE(follower.addUse(1, true));
  EXPECT_TRUE(follower.followsUse(2));
  EXPECT_FALSE(follower.followsUse(0));
  EXPECT_TRUE(follower.isUnpacked(2));
  EXPECT_TRUE(follower.addUse(2, true));
  EXPECT_TRUE(follower.addUse(1, true));  // an earlier epoch of its storage: use 2 goes on to it
  EXPECT_FALSE(follower.isUnpacked(4));
  EXPECT_FALSE(follower.expectsUses());
}

TEST(PlanFollower, AUseJoinsLateWhereItsOpTurnsOutToBeNone) {
  PlanFollower follower;
  following(follower);
  for (int value = 0; value < 3; ++value) follower.values().add(true);
  runOp(follower, 99);
  EXPECT_FALSE(follower.addUse(1, false));
  follower.removeLastOp();
  follower.joinLate(0, 2);  // another value than the plan's
  EXPECT_FALSE(follower.followsUse(0));
  follower.joinLate(0, 1);
  EXPECT_TRUE(follower.followsUse(0));
  follower.joinLate(0, 1);  // twice is once
  EXPECT_TRUE(follower.expectsUses());
  EXPECT_FALSE(follower.doesMore());
  for (const UseId use : {1, 2}) {
    follower.addUse(2, false);
    follower.joinLate(use, 2);
  }
  EXPECT_FALSE(follower.expectsUses());  // all have come
}

TEST(PlanFollower, EventsEndWithTheirDrops) {
  PlanFollower follower;
  following(follower);
  for (int value = 0; value < 3; ++value) follower.values().add(true);
  for (const ValueId value : {1, 2, 2}) follower.addUse(value, true);
  std::uint32_t visits = 0;
  EXPECT_FALSE(follower.isUnpackedFor(1, visits));
  EXPECT_EQ(follower.eventOf(1, visits), 0);
  EXPECT_TRUE(follower.isUnpackedFor(1, visits));
  follower.cursor().begin(0);
  const std::vector<ValueId>* const drops = follower.endEvent();
  ASSERT_NE(drops, nullptr);
  EXPECT_EQ(*drops, std::vector<ValueId>{2});
  EXPECT_EQ(follower.endEvent(), nullptr);  // once
}

TEST(PlanFollower, APreludeRunsOnceAllOfItHasCome) {
  PlanFollower follower;
  following(follower);
  const std::vector<Step>& prelude = follower.preludeOf(1);
  EXPECT_TRUE(follower.canRun(follower.preludeOf(0)));  // nothing
  EXPECT_FALSE(follower.canRun(prelude));               // op 0 has not
  EXPECT_TRUE(follower.canRun({{Step::Kind::kDrop, 1}}));
  EXPECT_FALSE(follower.canRun({{Step::Kind::kFetch, 0}}));
  runOp(follower, 10);
  EXPECT_TRUE(follower.canRun(prelude));
}

TEST(PlanFollower, OffThePlanNothingJoins) {
  PlanFollower follower;
  following(follower);
  follower.values().add(true);
  runOp(follower, 10);
  follower.addValue(0);
  EXPECT_TRUE(follower.leave());
  EXPECT_FALSE(follower.leave());  // once: it is said once
  EXPECT_TRUE(follower.offPlan());
  EXPECT_TRUE(follower.hasPlan());
  EXPECT_TRUE(follower.keepsAll());
  EXPECT_FALSE(follower.isNextOp(11, 11, false));
  EXPECT_FALSE(follower.addUse(1, true));
  follower.joinLate(0, 1);
  EXPECT_FALSE(follower.isUnpackedFor(0, 1));  // one that had joined would be
  EXPECT_FALSE(follower.expectsUses());
  EXPECT_EQ(follower.values().planned(1), 1);  // what was the plan's is
}

TEST(PlanFollower, OffThePlanNothingIsBornInIt) {
  PlanFollower follower;
  following(follower);
  follower.values().add(true);
  runOp(follower, 10);
  follower.leave();
  follower.addValue(0);
  EXPECT_TRUE(follower.values().unplanned(1));
}

TEST(PlanFollower, FollowedIsWhoDroppedNearlyAll) {
  PlanFollower follower;
  following(follower);
  for (int value = 0; value < 3; ++value) follower.values().add(true);
  follower.noteDropped(1);
  EXPECT_FALSE(follower.followed());  // 200 of 500
  follower.noteDropped(2);
  EXPECT_TRUE(follower.followed());
  follower.leave();
  EXPECT_TRUE(follower.followed());  // it left at its end
}

TEST(PlanFollower, StartsOver) {
  PlanFollower follower;
  following(follower);
  follower.values().add(true);
  runOp(follower, 10);
  follower.addUse(0, true);
  follower.leave();
  following(follower);
  EXPECT_TRUE(follower.follows());
  EXPECT_EQ(follower.nextOp(), 0);
  EXPECT_TRUE(follower.values().unplanned(0));
  EXPECT_FALSE(follower.doesMore());
}

// A program that does what is planned and more in between, in any way, ends where the plan ends.
TEST(PlanFollower, WhateverIsInsertedThePlansOpsAreFound) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    PlanFollower follower;
    following(follower);
    OpId ops = 0;
    std::vector<OpId> expected;
    for (const std::uint64_t signature : {10u, 11u, 12u}) {
      for (auto more = expected.empty() ? 0u : random() % 5; more > 0; --more, ++ops) {
        runOp(follower, 1000 + random() % 10);
        ASSERT_NE(follower.noteInserted(), Inserted::kTooMany);
      }
      runOp(follower, signature);
      expected.push_back(ops++);
      follower.passOp(expected.back());
    }
    for (OpId planned = 0; planned < 3; ++planned) {
      EXPECT_EQ(follower.stepsOp(planned), expected[planned]);
      EXPECT_EQ(follower.plannedOp(expected[planned]), planned);
    }
    EXPECT_EQ(follower.nextOp(), kNone);
    EXPECT_EQ(follower.doesMore(), ops > 3);
  }
}

}  // namespace
}  // namespace ebbtide::plugin
