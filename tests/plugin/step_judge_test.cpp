#include "runtime/programs/step_judge.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace ebbtide::plugin {
namespace {

class StepJudgeTest : public testing::Test {
 protected:
  StepJudgeTest() {
    plan_->feasible = true;
    plan_->predicted.peak_bytes = 1000;
    plan_->predicted.host_ns = 10'000'000;
    summary_.plan = plan_;
    summary_.trusted = true;
    memory_.allocated_peak_bytes = 1000;
  }
  StepVerdict judge(bool planning = false) {
    return verdictOn({summary_, memory_, done_}, &program_, planning);
  }
  void runWithoutPlan() {
    summary_.plan = nullptr;
    summary_.trusted = false;
    done_.spilled_bytes = 1;
  }

  const std::shared_ptr<Plan> plan_ = std::make_shared<Plan>();
  StepSummary summary_;
  allocator::Statistics memory_;
  ExecutorCounters::Totals done_;
  Program program_;
};

// 5 % of 1000 are 50, to either side.
TEST_F(StepJudgeTest, APeakMayDifferByFivePercent) {
  for (const std::int64_t peak : {950, 1000, 1050}) {
    memory_.allocated_peak_bytes = peak;
    EXPECT_FALSE(judge().plan_again) << peak;
    EXPECT_EQ(judge().peak_bytes, peak);
  }
  for (const std::int64_t peak : {949, 1051}) {
    memory_.allocated_peak_bytes = peak;
    EXPECT_TRUE(judge().plan_again) << peak;
  }
}

// What it was planned beside is smaller by now.
TEST_F(StepJudgeTest, APeakTellsNothingWhereTheStepWaited) {
  memory_.allocated_peak_bytes = 500;
  summary_.waited = true;
  EXPECT_FALSE(judge().plan_again);
}

TEST_F(StepJudgeTest, APlanThatFitsDoesNotSpill) {
  done_.spilled_bytes = 1;
  EXPECT_TRUE(judge().plan_again);
  plan_->feasible = false;  // it was to
  EXPECT_FALSE(judge().plan_again);
}

// The plan is of a step that unpacked the first of two uses. Twice the same use is no more.
TEST_F(StepJudgeTest, MoreOfABackwardPassAsksForAPlan) {
  constexpr auto kUnpack = scheduler::TraceEvent::Kind::kUnpack;
  plan_->uses.events = {{0}, {}};
  summary_.recorded = summary_.off_plan = true;
  summary_.trace.use_value = {0, 1};
  summary_.trace.events = {{.kind = kUnpack, .id = 0}, {.kind = kUnpack, .id = 0}};
  EXPECT_FALSE(judge().plan_again);
  summary_.trace.events.push_back({.kind = kUnpack, .id = 1});
  EXPECT_TRUE(judge().plan_again);
  plan_->signature = summary_.trace.signature + 1;  // of another program
  EXPECT_FALSE(judge().plan_again);
}

TEST_F(StepJudgeTest, APlanThatWasLeftIsNotJudged) {
  summary_.off_plan = true;
  memory_.allocated_peak_bytes = 5000;
  EXPECT_FALSE(judge().followed_plan);
  EXPECT_FALSE(judge().plan_again);
}

// Twice the 10 ms that were planned and 20 ms more are 40; the third step in a row asks.
TEST_F(StepJudgeTest, SlowOffloadsAskForAPlanTheThirdTime) {
  done_.offload_ns = 40'000'000;
  EXPECT_FALSE(judge().offloads_slowly);
  done_.offload_ns = 40'000'001;
  program_.in_force.slow_offloads = 1;
  EXPECT_TRUE(judge().offloads_slowly);
  EXPECT_FALSE(judge().plan_again);
  program_.in_force.slow_offloads = 2;
  EXPECT_TRUE(judge().plan_again);
}

// It was planned, and nothing was to be dropped.
TEST_F(StepJudgeTest, AProgramThatFittedUntilNowIsPlannedAgain) {
  runWithoutPlan();
  EXPECT_TRUE(judge().spills_unplanned);
  EXPECT_FALSE(judge().plan_again);
  program_.planning.asked = true;
  EXPECT_TRUE(judge().plan_again);
  EXPECT_FALSE(judge(/*planning=*/true).plan_again);
  program_.in_force.plan = plan_;
  EXPECT_FALSE(judge().plan_again);
}

TEST_F(StepJudgeTest, NobodyKnowsWhichProgramSpilled) {
  runWithoutPlan();
  const StepVerdict verdict = verdictOn({summary_, memory_, done_}, nullptr, false);
  EXPECT_TRUE(verdict.spills_unplanned);
  EXPECT_FALSE(verdict.plan_again);
}

}  // namespace
}  // namespace ebbtide::plugin
