#include "plan/plan_cursor.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;

// Three events. Use 0 is unpacked in the first and in the last one, use 1 in the second one, and
// use 2 in none.
std::shared_ptr<Plan> threeEvents() {
  auto plan = std::make_shared<Plan>();
  plan->events.resize(3);
  plan->uses.events = {{0, 2}, {1}, {}};
  return plan;
}

TEST(PlanCursor, WithoutAPlanNothingIsDue) {
  PlanCursor cursor;
  cursor.follow(nullptr);
  cursor.noteMessage(0);
  EXPECT_FALSE(cursor.expectsReceives());
  EXPECT_EQ(cursor.reached(), nullptr);
  EXPECT_EQ(cursor.due(0), nullptr);
  EXPECT_EQ(cursor.current(), kNone);
}

TEST(PlanCursor, EventsComeInOrder) {
  const auto plan = threeEvents();
  PlanCursor cursor;
  cursor.follow(plan.get());
  EXPECT_TRUE(cursor.isNext(0));
  EXPECT_FALSE(cursor.isNext(1));
  EXPECT_FALSE(cursor.isNext(kNone));
  cursor.begin(0);
  EXPECT_EQ(cursor.current(), 0);
  EXPECT_FALSE(cursor.isNext(0));  // it has begun
  EXPECT_FALSE(cursor.isNext(1));  // its prelude still runs
  cursor.passPrelude();
  EXPECT_TRUE(cursor.isNext(1));
  EXPECT_EQ(cursor.end(), 0);
  EXPECT_EQ(cursor.current(), kNone);
  EXPECT_TRUE(cursor.isNext(1));
}

// An event whose prelude failed: what comes next is it, and it has been.
TEST(PlanCursor, WhatFailedIsNotRepeated) {
  const auto plan = threeEvents();
  PlanCursor cursor;
  cursor.follow(plan.get());
  cursor.begin(0);
  cursor.end();
  EXPECT_EQ(cursor.next(), 0);
  EXPECT_FALSE(cursor.isNext(0));
  EXPECT_FALSE(cursor.isNext(1));
}

TEST(PlanCursor, AUseHasAnEventForEachTimeThatItIsUnpacked) {
  const auto plan = threeEvents();
  PlanCursor cursor;
  cursor.follow(plan.get());
  std::uint32_t visits = 0;
  EXPECT_EQ(cursor.eventOf(0, visits), 0);
  EXPECT_EQ(visits, 1U);
  cursor.begin(0);
  EXPECT_EQ(cursor.eventOf(0, visits), 0);  // by the same node once more
  EXPECT_EQ(visits, 1U);
  cursor.touch();  // another node began
  EXPECT_EQ(cursor.eventOf(0, visits), 2);
  EXPECT_EQ(visits, 2U);
  cursor.touch();
  EXPECT_EQ(cursor.eventOf(0, visits), kNone);  // a third time
  std::uint32_t none = 0;
  EXPECT_EQ(cursor.eventOf(2, none), kNone);
}

// The plan waits after 5 ops, before event 1, for the second receive there (one comes before it).
std::shared_ptr<Plan> withAWait() {
  auto plan = threeEvents();
  plan->receives = true;
  plan->waits.push_back({.ops = 5, .event = 1, .before = 1, .prelude = {}});
  return plan;
}

void pass(PlanCursor& cursor, std::int32_t event) {
  cursor.begin(event);
  cursor.passPrelude();
  cursor.end();
}

TEST(PlanCursor, AWaitIsReachedByItsReceive) {
  const auto plan = withAWait();
  PlanCursor cursor;
  cursor.follow(plan.get());
  EXPECT_TRUE(cursor.expectsReceives());
  cursor.noteMessage(5);
  cursor.noteMessage(5);
  EXPECT_EQ(cursor.reached(), nullptr);  // before event 0
  pass(cursor, 0);
  cursor.noteMessage(5);
  EXPECT_EQ(cursor.reached(), nullptr);  // the one that comes before it
  cursor.noteMessage(5);
  EXPECT_EQ(cursor.reached(), plan->waits.data());
  cursor.passWait();
  EXPECT_EQ(cursor.reached(), nullptr);
  EXPECT_EQ(cursor.due(2), nullptr);
}

// A program that receives less there than was recorded: an op later is late enough.
TEST(PlanCursor, AWaitIsReachedByALaterReceiveToo) {
  const auto plan = withAWait();
  PlanCursor cursor;
  cursor.follow(plan.get());
  pass(cursor, 0);
  cursor.noteMessage(4);
  cursor.noteMessage(4);
  EXPECT_EQ(cursor.reached(), nullptr);  // too early, however many
  cursor.noteMessage(6);
  EXPECT_EQ(cursor.reached(), plan->waits.data());
}

TEST(PlanCursor, AWaitIsDueAtItsEvent) {
  const auto plan = withAWait();
  PlanCursor cursor;
  cursor.follow(plan.get());
  EXPECT_EQ(cursor.due(0), nullptr);
  EXPECT_EQ(cursor.due(1), plan->waits.data());
  EXPECT_EQ(cursor.due(2), plan->waits.data());
  cursor.passWait();
  EXPECT_EQ(cursor.due(2), nullptr);
}

TEST(PlanCursor, AnotherPlanIsFollowedFromItsBeginning) {
  const auto plan = withAWait();
  PlanCursor cursor;
  cursor.follow(plan.get());
  cursor.passWait();
  const auto other = withAWait();
  cursor.follow(other.get());
  EXPECT_EQ(cursor.due(1), other->waits.data());
  EXPECT_TRUE(cursor.isNext(0));
}

}  // namespace
}  // namespace ebbtide::plugin
