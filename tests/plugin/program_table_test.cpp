#include "runtime/programs/program_table.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace ebbtide::plugin {
namespace {

std::shared_ptr<Plan> planOf(std::uint64_t program, std::int64_t host_fetches = 0) {
  auto plan = std::make_shared<Plan>();
  plan->signature = program;
  plan->predicted.host_fetches = host_fetches;
  return plan;
}

StepSummary recordedStep(std::uint64_t program) {
  StepSummary step;
  step.recorded = true;
  step.trace.signature = program;
  return step;
}

StepSummary plannedStep(const std::shared_ptr<const Plan>& plan, bool off_plan = false) {
  StepSummary step;
  step.plan = plan;
  step.off_plan = off_plan;
  return step;
}

TEST(ProgramTable, AStepBeginsWithThePlanOfTheProgramThatRanLast) {
  ProgramTable programs;
  EXPECT_EQ(programs.expectedPlan(1), nullptr);
  programs[7].in_force.plan = planOf(7);
  EXPECT_EQ(programs.expectedPlan(1), nullptr);  // none has run
  EXPECT_EQ(programs.noteStep(recordedStep(7)), 7U);
  EXPECT_EQ(programs.expectedPlan(2), programs[7].in_force.plan);
}

// 7 8 7 8 …: after a 7 an 8 comes.
TEST(ProgramTable, ProgramsThatAlternateFollowEachOther) {
  ProgramTable programs;
  for (const std::uint64_t program : {7, 8}) programs[program].in_force.plan = planOf(program);
  for (const std::uint64_t program : {7, 8, 7, 8, 7}) programs.noteStep(recordedStep(program));
  EXPECT_EQ(programs.last(), 7U);
  EXPECT_EQ(programs.expectedPlan(6), programs[8].in_force.plan);
}

TEST(ProgramTable, APlanForLaterTakesItsPlaceWhenThatStepBegins) {
  ProgramTable programs;
  programs.noteStep(recordedStep(7));
  const auto first = planOf(7), second = planOf(7);
  Program& known = programs[7];
  EXPECT_FALSE(known.adopt(first, 100, 0, 2));
  EXPECT_TRUE(known.adopt(second, 200, 4, 2));
  EXPECT_EQ(programs.expectedPlan(3), first);
  EXPECT_EQ(programs.expectedPlan(4), second);
}

TEST(ProgramTable, WhatBeginsAlikeIsTheProgramThatIsExpectedElseTheOneThatRanMost) {
  ProgramTable programs;
  for (const std::uint64_t program : {7, 8, 9}) {
    programs[program].first_op_signature = program == 9 ? 2 : 1;
    programs[program].in_force.plan = planOf(program);
  }
  programs[8].steps = 5;
  EXPECT_EQ(programs.planFor(1, 1), programs[8].in_force.plan);
  EXPECT_EQ(programs.planFor(2, 1), programs[9].in_force.plan);
  EXPECT_EQ(programs.planFor(3, 1), nullptr);
  for (int i = 0; i < 2; ++i) programs.noteStep(recordedStep(7));
  EXPECT_EQ(programs.planFor(1, 3), programs[7].in_force.plan);
}

// A step on its plan ran that plan's program; one that left it and was not recorded, nobody knows
// which.
TEST(ProgramTable, AStepsProgramIsItsTracesOrItsPlans) {
  ProgramTable programs;
  const auto plan = planOf(7);
  EXPECT_EQ(programs.programOf(plannedStep(plan)), &programs[7]);
  EXPECT_EQ(programs.noteStep(plannedStep(plan)), 7U);
  EXPECT_EQ(programs.programOf(plannedStep(plan, /*off_plan=*/true)), nullptr);
  EXPECT_EQ(programs.noteStep(plannedStep(plan, /*off_plan=*/true)), 0U);
  EXPECT_EQ(programs.last(), 7U);
  EXPECT_EQ(programs.programOf(recordedStep(8)), &programs[8]);
}

TEST(ProgramTable, PlansThatCountOnTheHostAreDroppedAndMadeAnew) {
  ProgramTable programs;
  const auto of_host = [](const Plan& plan) { return plan.predicted.host_fetches > 0; };
  programs[7].in_force.plan = planOf(7);
  EXPECT_FALSE(programs.dropPlans(of_host));
  programs[8].in_force.plan = planOf(8, 1);
  programs[9].in_force.plan = planOf(9);
  programs[9].later.plan = planOf(9, 1);
  EXPECT_TRUE(programs.dropPlans(of_host));
  EXPECT_NE(programs[7].in_force.plan, nullptr);
  EXPECT_FALSE(programs[7].planning.replan);
  EXPECT_EQ(programs[8].in_force.plan, nullptr);
  EXPECT_TRUE(programs[8].planning.replan);
  EXPECT_NE(programs[9].in_force.plan, nullptr);  // it stays until there is another one
  EXPECT_EQ(programs[9].later.plan, nullptr);
  EXPECT_TRUE(programs[9].planning.replan);
}

TEST(ProgramTable, AnotherBudgetKeepsPlansUnlessItIsSmaller) {
  ProgramTable programs;
  programs[7].in_force.plan = planOf(7);
  programs[7].later.plan = planOf(7);
  programs.beginAnew(/*drop=*/false);
  EXPECT_NE(programs[7].in_force.plan, nullptr);
  EXPECT_EQ(programs[7].later.plan, nullptr);
  EXPECT_TRUE(programs.anyPlan());
  programs.beginAnew(/*drop=*/true);
  EXPECT_FALSE(programs.anyPlan());
}

TEST(ProgramTable, TheMainProgramRanMostOfThoseThatAreKnownTheLargestNeedsMost) {
  ProgramTable programs;
  EXPECT_EQ(programs.main(), 0U);
  EXPECT_EQ(programs.shown(), nullptr);
  EXPECT_EQ(programs.largest(), nullptr);
  programs[7].steps = 9;  // nothing is known of what it needs
  programs[8].steps = 3;
  programs[8].plain.peak_bytes = 100;
  programs[9].steps = 2;
  programs[9].plain.peak_bytes = 200;
  EXPECT_EQ(programs.main(), 8U);
  EXPECT_EQ(programs.largest(), &programs[9]);
  EXPECT_EQ(programs.current(), &programs[8]);  // none has run
  programs.noteStep(recordedStep(9));
  EXPECT_EQ(programs.current(), &programs[9]);
}

// After each step of a GAN the count of one is ahead, or they are equal: 3 of 4 are 75 %.
TEST(ProgramTable, OfProgramsThatTakeTurnsTheMainOneIsAlwaysTheLargest) {
  ProgramTable programs;
  programs[7].plain.peak_bytes = 200;
  programs[8].plain.peak_bytes = 100;
  programs[7].steps = programs[8].steps = 3;
  for (int turn = 0; turn < 4; ++turn) {
    EXPECT_EQ(programs.main(), 7U);
    ++programs[8].steps;
    EXPECT_EQ(programs.main(), 7U);
    ++programs[7].steps;
  }
  programs[8].steps = 70;
  EXPECT_EQ(programs.main(), 8U);
}

TEST(ProgramTable, ThePlanOfTheMainProgramIsShownElseOneThatThereIs) {
  ProgramTable programs;
  for (const std::uint64_t program : {7, 8, 9}) {
    programs[program].steps = static_cast<std::int64_t>(10 * program * program);
    programs[program].plain.peak_bytes = 100;
  }
  programs[9].steps = 2000;
  EXPECT_EQ(programs.shown(), &programs[9]);  // without a plan, as all
  programs[7].in_force.plan = planOf(7);
  EXPECT_EQ(programs.shown(), &programs[7]);
  programs[8].in_force.plan = planOf(8);
  programs[8].steps = 1000;
  EXPECT_EQ(programs.shown(), &programs[8]);
  programs[9].in_force.plan = planOf(9);
  EXPECT_EQ(programs.shown(), &programs[9]);
  EXPECT_EQ(programs.shown([](std::uint64_t program) { return program == 7; }), 7U);
}

// As a loader whose last batch is short gives them: 7 7 7 8, and only 7 has a plan.
TEST(ProgramTable, AStepOfAnotherProgramEndsNoPlansCourse) {
  ProgramTable programs;
  const auto plan = planOf(7);
  programs[7].in_force.plan = plan;
  programs[7].steps = 6;
  programs[8].steps = 2;
  for (std::int64_t step = 1; step <= 8; ++step)
    programs.noteActive(step % 4 == 0 ? recordedStep(8) : plannedStep(plan), step, false);
  EXPECT_EQ(programs.active().fromStepOf(*plan), 1);
  EXPECT_EQ(programs.active().last(), nullptr);
  // Begun with the plan of another program, or without one while that is followed, or unseen.
  StepSummary taken_for_other = plannedStep(planOf(8));
  taken_for_other.recorded = true;
  taken_for_other.trace.signature = 7;
  for (const StepSummary& step : {taken_for_other, recordedStep(7), StepSummary{}})
    programs.noteActive(step, 9, false);
  EXPECT_EQ(programs.active().fromStepOf(*plan), 1);
}

TEST(ProgramTable, APauseAndAPlanThatIsGoneEndItsCourse) {
  ProgramTable programs;
  const auto plan = planOf(7);
  programs[7].in_force.plan = plan;
  programs.noteActive(plannedStep(plan), 1, false);
  programs.noteActive(StepSummary{}, 2, /*keeps_everything=*/true);
  EXPECT_EQ(programs.active().fromStep(7), 2);
  EXPECT_FALSE(programs.active().hasPlan(7));
  programs.noteActive(plannedStep(plan), 3, false);
  EXPECT_EQ(programs.active().fromStep(7), 3);
  programs.beginAnew(/*drop=*/true);
  programs.noteActive(recordedStep(7), 4, false);
  EXPECT_EQ(programs.active().fromStep(7), 4);
  EXPECT_FALSE(programs.active().hasPlan(7));
}

// The newest has no steps either, but it is the one that runs.
TEST(ProgramTable, TheProgramWithTheFewestStepsIsForgotten) {
  ProgramTable programs;
  for (std::uint64_t program = 1; program <= ProgramTable::kMost; ++program)
    programs[program].steps = static_cast<std::int64_t>(program);
  StepSummary newest = recordedStep(1000);
  programs.noteStep(newest);
  programs.noteRecorded(newest.trace);
  EXPECT_EQ(programs.size(), ProgramTable::kMost);
  EXPECT_EQ(programs.find(1), programs.end());
  EXPECT_NE(programs.find(1000), programs.end());
}

// A run's figures are of the program with the highest plain peak.
TEST(ProgramTable, TheLargestProgramIsNotForgotten) {
  ProgramTable programs;
  for (std::uint64_t program = 1; program <= ProgramTable::kMost; ++program)
    programs[program].steps = static_cast<std::int64_t>(program);
  programs[1].plain.peak_bytes = 100;
  StepSummary newest = recordedStep(1000);
  programs.noteStep(newest);
  programs.noteRecorded(newest.trace);
  EXPECT_NE(programs.find(1), programs.end());
  EXPECT_EQ(programs.find(2), programs.end());
}

TEST(ProgramTable, WhatWasPlannedOnceIsKnown) {
  ProgramTable programs;
  programs[7].adopt(nullptr, 100, 0, 1);  // nothing to drop
  EXPECT_FALSE(programs.anyWasPlanned());
  programs[7].adopt(planOf(7), 100, 0, 1);
  programs.beginAnew(/*drop=*/true);
  EXPECT_TRUE(programs.anyWasPlanned());
}

}  // namespace
}  // namespace ebbtide::plugin
