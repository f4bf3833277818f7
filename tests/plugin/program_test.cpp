#include "runtime/programs/program.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace ebbtide::plugin {
namespace {

TEST(Program, ALaterPlanTakesItsPlaceAtItsStep) {
  Program program;
  const auto now = std::make_shared<Plan>(), later = std::make_shared<Plan>();
  program.in_force.plan = now;
  program.later.plan = later;
  program.later.from = 7;
  EXPECT_EQ(program.planAt(6), now);
  EXPECT_EQ(program.planAt(7), later);
  EXPECT_EQ(program.later.plan, nullptr);
  EXPECT_EQ(program.planAt(6), later);  // a step that began late: there is no way back
}

TEST(Program, APlanComesIntoForceAtOnceOrLater) {
  Program program;
  program.in_force.steady_peak_bytes = 7;
  program.in_force.slow_offloads = 2;
  const auto first = std::make_shared<Plan>(), second = std::make_shared<Plan>();
  EXPECT_FALSE(program.adopt(first, 100, /*from=*/0, /*next=*/5));
  EXPECT_EQ(program.in_force.plan, first);
  EXPECT_EQ(program.in_force.predicted_peak_bytes, 100);
  EXPECT_EQ(program.in_force.steady_peak_bytes, 0);  // of the plan before
  EXPECT_EQ(program.in_force.slow_offloads, 0);
  EXPECT_TRUE(program.adopt(second, 200, /*from=*/6, /*next=*/5));
  EXPECT_EQ(program.in_force.plan, first);
  EXPECT_EQ(program.later.plan, second);
  EXPECT_EQ(program.later.from, 6);
  EXPECT_EQ(program.in_force.predicted_peak_bytes, 100);
  EXPECT_FALSE(program.adopt(nullptr, 300, /*from=*/0, /*next=*/5));  // nothing is dropped any more
  EXPECT_EQ(program.in_force.plan, nullptr);
  EXPECT_EQ(program.later.plan, nullptr);
  EXPECT_EQ(program.planning.plans_made, 2);
}

// A run may end before step 7: its report has the figures of the plan that its steps followed.
TEST(Program, APlanForLaterBringsItsFiguresWhenItsStepBegins) {
  Program program;
  program.adopt(std::make_shared<Plan>(), 100, /*from=*/0, /*next=*/5);
  program.noteFollowed(90, /*slowly=*/false);
  program.adopt(std::make_shared<Plan>(), 200, /*from=*/7, /*next=*/6);
  program.planAt(6);
  program.noteFollowed(80, /*slowly=*/true);
  EXPECT_EQ(program.in_force.predicted_peak_bytes, 100);
  EXPECT_EQ(program.in_force.steady_peak_bytes, 90);  // the larger one of 90 and 80
  program.planAt(7);
  EXPECT_EQ(program.in_force.predicted_peak_bytes, 200);
  EXPECT_EQ(program.in_force.steady_peak_bytes, 0);  // no step has followed it
  EXPECT_EQ(program.in_force.slow_offloads, 0);
}

// With the figures of a later step, say.
TEST(Program, APlanThatDoesTheSameIsNoOtherOne) {
  Program program;
  const auto first = std::make_shared<Plan>(), same = std::make_shared<Plan>();
  same->course = first->course;
  EXPECT_FALSE(program.adopt(first, 100, /*from=*/0, /*next=*/5));
  EXPECT_FALSE(program.adopt(same, 200, /*from=*/0, /*next=*/5));
  EXPECT_EQ(program.in_force.plan, same);
  EXPECT_EQ(program.in_force.predicted_peak_bytes, 200);
}

TEST(Program, AFirstPlanIsNoneOnceItsPlanGoes) {
  Program program;
  const auto first = std::make_shared<Plan>();
  program.adopt(first, 100, /*from=*/0, /*next=*/5);
  program.in_force.first = FirstPlan(first, {});
  program.adopt(std::make_shared<Plan>(), 100, /*from=*/0, /*next=*/5);
  EXPECT_FALSE(program.in_force.first.any());
  program.in_force.first = FirstPlan(program.in_force.plan, {});
  program.dropPlan();
  EXPECT_FALSE(program.in_force.first.any());
  EXPECT_EQ(program.in_force.plan, nullptr);
}

TEST(Program, WhatTakesThePlaceOfAPlanThatWasWrongIsNotAskedForAgain) {
  Program program;
  program.adopt(std::make_shared<Plan>(), 100, /*from=*/0, /*next=*/5);
  program.askAgain();
  program.adopt(std::make_shared<Plan>(), 100, /*from=*/0, /*next=*/5);
  EXPECT_FALSE(program.planning.replan);
}

// Steps that differ from the plan each time: it is asked for again four times, once at a time.
TEST(Program, IsPlannedAgainOnlySoOften) {
  Program program;
  for (int time = 0; time < Program::kMostReplans; ++time) {
    program.askAgain();
    program.askAgain();
    EXPECT_TRUE(program.planning.replan);
    program.planning.replan = false;
  }
  program.askAgain();
  EXPECT_FALSE(program.planning.replan);
}

TEST(Program, ComparedOpsAddUp) {
  Program program;
  Plan first, second;
  first.ops.replayed = {true, false, true};
  second.ops.replayed = {false, false, true, true};
  program.noteVerified(first);
  program.noteVerified(second);
  EXPECT_EQ(program.verifications.compared, (std::set<OpId>{0, 2, 3}));
}

// The step with the larger peak made 40, that with the smaller one 90.
TEST(Program, ItsPlainPeakAndActivationsAreOfOneStep) {
  Program program;
  program.notePlainPeak(300, 40);
  program.notePlainPeak(200, 90);
  EXPECT_EQ(program.plain.peak_bytes, 300);
  EXPECT_EQ(program.plain.activation_bytes, 40);
  program.notePlainPeak(400, /*activation=*/0);  // not known
  EXPECT_EQ(program.plain.peak_bytes, 400);
  EXPECT_EQ(program.plain.activation_bytes, 40);
}

TEST(Program, SlowOffloadsAreCountedInARow) {
  Program program;
  program.noteFollowed(7, /*slowly=*/true);
  program.noteFollowed(5, /*slowly=*/true);
  EXPECT_EQ(program.in_force.slow_offloads, 2);
  EXPECT_EQ(program.in_force.steady_peak_bytes, 7);
  program.noteFollowed(6, /*slowly=*/false);
  EXPECT_EQ(program.in_force.slow_offloads, 0);
}

// Op 1 has not been compared; a plan without replays has nothing to compare.
TEST(Program, APlanIsComparedOnceAllThatItReplaysWas) {
  Program program;
  Plan some, all, more, none;
  some.ops.replayed = {true, false, true};
  none.ops.replayed = {false, false, false};
  all.ops.replayed = {false, false, true};
  more.ops.replayed = {true, true, false};
  EXPECT_TRUE(program.hasCompared(none));
  EXPECT_FALSE(program.hasCompared(all));
  program.noteVerified(some);
  EXPECT_TRUE(program.hasCompared(all));
  EXPECT_TRUE(program.hasCompared(some));
  EXPECT_FALSE(program.hasCompared(more));
}

}  // namespace
}  // namespace ebbtide::plugin
