#include "ebbtide/scheduler/pipeline_planner.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <random>

#include "ebbtide/scheduler/pipeline_simulator.hpp"
#include "pipeline_jobs.hpp"

namespace ebbtide::scheduler {
namespace {

bool isWithinBudgets(const PipelineJob& job, const PipelineSimulation& result) {
  for (std::size_t rank = 0; rank < job.ranks(); ++rank) {
    if (result.ranks[rank].peak_bytes > job.budgets[rank]) return false;
  }
  return true;
}

// The shortest step within the budgets, of all choices; nothing if none fits.
std::optional<Nanoseconds> shortestOfAll(const PipelineJob& job) {
  StageChoices choices = uniformChoices(job, 0);
  std::optional<Nanoseconds> best;
  while (true) {
    const PipelineSimulation result = simulate(job, choices);
    if (isWithinBudgets(job, result) && (!best || result.makespan_ns < *best)) {
      best = result.makespan_ns;
    }
    bool carried = true;
    for (std::size_t i = 0; carried && i < job.stages.size() * job.microbatches; ++i) {
      const std::size_t stage = i / job.microbatches;
      std::int32_t& point = choices[stage][i % job.microbatches];
      const auto points = job.profiles[job.stages[stage].profile].points.size();
      carried = static_cast<std::size_t>(++point) == points;
      if (carried) point = 0;
    }
    if (carried) return best;
  }
}

double combinations(const PipelineJob& job) {
  double product = 1;
  for (const Stage& stage : job.stages) {
    for (std::int32_t i = 0; i < job.microbatches; ++i) {
      product *= static_cast<double>(job.profiles[stage.profile].points.size());
    }
  }
  return product;
}

TEST(PipelinePlanner, IsWithin3PercentOfAllChoices) {
  std::mt19937 random(1);
  int compared = 0;
  for (int i = 0; i < 3000; ++i) {
    const PipelineJob job = randomJob(random, 3, 4);
    if (combinations(job) > 5000) continue;
    const PipelinePlan plan = planPipeline(job);
    const std::optional<Nanoseconds> shortest = shortestOfAll(job);
    ASSERT_EQ(plan.feasible(), shortest.has_value()) << "job " << i;
    if (!shortest) continue;
    ++compared;
    ASSERT_LE(plan.bound_ns, *shortest) << "job " << i;
    ASSERT_LE(static_cast<double>(plan.makespan_ns), 1.03 * static_cast<double>(*shortest))
        << "job " << i;
  }
  EXPECT_GT(compared, 500);
}

TEST(PipelinePlanner, WhatItSaysIsWhatTheSimulatorFinds) {
  std::mt19937 random(2);
  int feasible = 0;
  for (int i = 0; i < 300; ++i) {
    const PipelineJob job = randomJob(random, 6, 16);
    const PipelinePlan plan = planPipeline(job, {.seed = random()});
    const PipelineSimulation result = simulate(job, plan.choices);
    EXPECT_EQ(plan.makespan_ns, result.makespan_ns) << "job " << i;
    EXPECT_TRUE(!plan.feasible() || plan.bound_ns <= result.makespan_ns) << "job " << i;
    EXPECT_EQ(plan.feasible(), isWithinBudgets(job, result)) << "job " << i;
    for (const RankShortfall& shortfall : plan.shortfalls) {
      EXPECT_EQ(shortfall.needed_bytes, result.ranks[shortfall.rank].peak_bytes) << "job " << i;
      EXPECT_GT(shortfall.needed_bytes, job.budgets[shortfall.rank]) << "job " << i;
    }
    feasible += plan.feasible() ? 1 : 0;
  }
  EXPECT_GT(feasible, 50);
  EXPECT_LT(feasible, 280);
}

TEST(PipelinePlanner, IsNeverSlowerThanOneSettingForAll) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const PipelineJob job = randomJob(random, 6, 12);
    const PipelinePlan plan = planPipeline(job);
    for (std::int32_t point = 0; point < 3; ++point) {
      const PipelineSimulation uniform = simulate(job, uniformChoices(job, point));
      if (!isWithinBudgets(job, uniform)) continue;
      EXPECT_LE(plan.makespan_ns, uniform.makespan_ns) << "job " << i;
    }
  }
}

TEST(PipelinePlanner, TheSameSeedGivesTheSamePlan) {
  std::mt19937 random(4);
  for (int i = 0; i < 20; ++i) {
    const PipelineJob job = randomJob(random, 4, 12);
    EXPECT_EQ(planPipeline(job, {.seed = 7}).choices, planPipeline(job, {.seed = 7}).choices);
  }
}

// Rank 0 holds two microbatches: 200 bytes kept, 120 with one replayed, at 220 - 110 while one of
// two is replayed in backward. With 210 the first must go: its replay hides in the wait for rank 1.
TEST(PipelinePlanner, ReplaysWhereTheRankWaits) {
  PipelineJob job = equalStages("1f1b", 2, 2);
  job.budgets = {150, 150};
  const PipelinePlan plan = planPipeline(job);
  ASSERT_TRUE(plan.feasible());
  EXPECT_EQ(plan.makespan_ns, 90);  // as if all were kept
  EXPECT_EQ(plan.bound_ns, 90);
  EXPECT_EQ(plan.choices[1], (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(plan.choices[0][0] + plan.choices[0][1], 1);
}

TEST(PipelinePlanner, ARankThatCannotFitIsNamed) {
  PipelineJob job = equalStages("1f1b", 2, 2);
  job.budgets = {1000, 90};
  const PipelinePlan plan = planPipeline(job);
  ASSERT_EQ(plan.shortfalls.size(), 1U);
  EXPECT_EQ(plan.shortfalls[0].rank, 1);
  EXPECT_EQ(plan.shortfalls[0].needed_bytes, 100);  // one microbatch, kept: its replay takes 110
  EXPECT_EQ(plan.shortfalls[0].budget_bytes, 90);
}

TEST(PipelinePlanner, ADeadlineThatIsPastStillGivesAPlan) {
  const PipelineJob job = equalStages("1f1b", 4, 16);
  const PipelinePlan plan =
      planPipeline(job, {.deadline = std::chrono::steady_clock::time_point()});
  EXPECT_TRUE(plan.feasible());
  EXPECT_EQ(plan.makespan_ns, simulate(job, plan.choices).makespan_ns);
}

}  // namespace
}  // namespace ebbtide::scheduler
