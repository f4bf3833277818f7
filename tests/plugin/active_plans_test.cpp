#include "runtime/programs/active_plans.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

std::shared_ptr<Plan> planOf(std::uint64_t program) {
  auto plan = std::make_shared<Plan>();
  plan->signature = program;
  return plan;
}

TEST(ActivePlans, KnowSinceWhenAPlanHolds) {
  const auto one = planOf(7), other = planOf(7), figures = planOf(7);
  figures->course = one->course;  // it does the same
  ActivePlans active;
  EXPECT_FALSE(active.hasPlan(7));
  EXPECT_EQ(active.fromStep(7), -1);
  active.noteProgram(7, nullptr, 1);
  EXPECT_EQ(active.fromStep(7), -1);  // it had none before
  active.noteProgram(7, one.get(), 2);
  active.noteProgram(7, figures.get(), 3);
  EXPECT_TRUE(active.hasPlan(7));
  EXPECT_EQ(active.fromStep(7), 2);
  EXPECT_EQ(active.fromStepOf(*figures), 2);
  EXPECT_EQ(active.fromStepOf(*other), -1);
  active.noteProgram(7, other.get(), 4);
  EXPECT_EQ(active.fromStepOf(*other), 4);
  EXPECT_EQ(active.fromStepOf(*one), -1);
  active.noteProgram(7, nullptr, 5);
  EXPECT_FALSE(active.hasPlan(7));
  EXPECT_EQ(active.fromStep(7), 5);
  active.forget(7);
  EXPECT_EQ(active.fromStep(7), -1);
}

TEST(ActivePlans, StepsOfAnotherProgramEndNoPlansCourse) {
  const auto one = planOf(7), other = planOf(8);
  ActivePlans active;
  for (std::int64_t step = 1; step <= 6; ++step) {
    const bool first = step % 2 == 1;
    active.noteProgram(first ? 7 : 8, (first ? one : other).get(), step);
  }
  EXPECT_EQ(active.fromStepOf(*one), 1);
  EXPECT_EQ(active.fromStepOf(*other), 2);
}

TEST(ActivePlans, KnowTheLastOneAndTheFirstStepWithAny) {
  const auto plan = planOf(7);
  ActivePlans active;
  active.noteStep(nullptr, 1);
  EXPECT_EQ(active.firstStep(), -1);
  active.noteStep(plan, 2);
  EXPECT_EQ(active.last(), plan);
  active.noteStep(nullptr, 3);
  EXPECT_EQ(active.last(), nullptr);
  EXPECT_EQ(active.firstStep(), 2);
}

}  // namespace
}  // namespace ebbtide::plugin
