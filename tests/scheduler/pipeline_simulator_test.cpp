#include "ebbtide/scheduler/pipeline_simulator.hpp"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <string>

#include "pipeline_jobs.hpp"

namespace ebbtide::scheduler {
namespace {

// Rank 0: F0 0-10, F1 10-20, waits, B0 40-60, B1 70-90.
// Rank 1:          F0 10-20, B0 20-40, F1 40-50, B1 50-70.
TEST(PipelineSimulator, OneForwardOneBackward) {
  const PipelineJob job = equalStages("1f1b", 2, 2);
  const PipelineSimulation kept = simulate(job, uniformChoices(job, 0));
  EXPECT_EQ(kept.makespan_ns, 90);
  EXPECT_EQ(kept.ranks[0].actions[3].begin_ns, 70);
  EXPECT_EQ(kept.ranks[0].busy_ns, 60);
  EXPECT_EQ(kept.ranks[0].idle_ns, 30);
  EXPECT_EQ(kept.ranks[0].peak_bytes, 200);  // both microbatches
  EXPECT_EQ(kept.ranks[1].peak_bytes, 100);
}

// Rank 0 replays B0's 10 ns while it waits from 20 on; rank 1 never waits in between.
// Rank 1: F0 10-20, replay -30, B0 -50, F1 -60, replay -70, B1 -90. Rank 0's B0 50-70, replay for
// B1 70-80, B1 90-110.
TEST(PipelineSimulator, ReplaysHideInWaits) {
  PipelineJob job = equalStages("1f1b", 2, 2);
  const StageChoices all = uniformChoices(job, 1);
  const PipelineSimulation ahead = simulate(job, all);
  EXPECT_EQ(ahead.makespan_ns, 110);
  EXPECT_EQ(ahead.ranks[0].recompute_ns, 20);
  EXPECT_EQ(ahead.ranks[0].hidden_ns, 20);
  EXPECT_EQ(ahead.ranks[0].actions[2].replays_begin_ns, 20);
  EXPECT_EQ(ahead.ranks[1].hidden_ns, 0);
  // Two microbatches hold 20 each; then B0 takes 110 beside B1's 20.
  EXPECT_EQ(ahead.ranks[0].peak_bytes, 130);
  EXPECT_EQ(ahead.ranks[0].peak_action, 2U);
  // Only once the gradient is there: B0 50 + 10 -80, B1 90 + 10 -120.
  job.replays_ahead = false;
  const PipelineSimulation behind = simulate(job, all);
  EXPECT_EQ(behind.makespan_ns, 120);
  EXPECT_EQ(behind.ranks[0].hidden_ns, 0);
}

// All of B0's replays ahead take 40 bytes more than 110, beside B1's 20: a budget of 150 leaves
// room for half of that, 5 of 10 ns. They run from 20 on, the others once the gradient is there at
// 50; B0 55-75. B1 has room for all: 75-85, its gradient is there at 90.
TEST(PipelineSimulator, ReplaysRunAheadAsFarAsThereIsRoom) {
  PipelineJob job = equalStages("1f1b", 2, 2);
  job.profiles[0].points[1].ahead_bytes = 150;
  job.budgets = {150, 130};
  const StageChoices all = uniformChoices(job, 1);
  const PipelineSimulation half = simulate(job, all);
  using Times = std::vector<std::pair<Nanoseconds, Nanoseconds>>;
  EXPECT_EQ(replayTimes(half.ranks[0].actions[2]), (Times{{20, 25}, {50, 55}}));
  EXPECT_EQ(half.ranks[0].actions[2].begin_ns, 55);
  EXPECT_EQ(replayTimes(half.ranks[0].actions[3]), (Times{{75, 85}}));
  EXPECT_EQ(half.makespan_ns, 110);
  EXPECT_EQ(half.ranks[0].hidden_ns, 15);
  EXPECT_EQ(half.ranks[0].peak_bytes, 150);
  // None for B0: 60-80. Beside nothing else B1's may take 20 of 40: 80-85 and 90-95.
  job.budgets[0] = 130;
  const PipelineSimulation none = simulate(job, all);
  EXPECT_EQ(replayTimes(none.ranks[0].actions[2]), (Times{{50, 60}}));
  EXPECT_EQ(replayTimes(none.ranks[0].actions[3]), (Times{{80, 85}, {90, 95}}));
  EXPECT_EQ(none.makespan_ns, 115);
  EXPECT_EQ(none.ranks[0].peak_bytes, 130);
  // As where each rank has a processor, if they share two.
  job.processors = 2;
  EXPECT_EQ(replayTimes(simulate(job, all).ranks[0].actions[3]), (Times{{80, 85}, {90, 95}}));
}

// Rank 0 holds 200 bytes while F1 runs, and 200 while B0 does, where 30 of gradients are there by
// then; in B1 100 and 60.
TEST(PipelineSimulator, GradientsComeWithTheActions) {
  PipelineJob job = equalStages("1f1b", 2, 2);
  job.besides_bytes = {{0, 10, 30, 60}, {0, 0, 0, 0}};
  checkJob(job);
  const PipelineSimulation result = simulate(job, uniformChoices(job, 0));
  EXPECT_EQ(result.ranks[0].actions[1].most_bytes, 210);
  EXPECT_EQ(result.ranks[0].actions[3].most_bytes, 160);
  EXPECT_EQ(result.ranks[0].peak_bytes, 230);
  EXPECT_EQ(result.ranks[0].peak_action, 2U);
  job.besides_bytes[0].pop_back();
  EXPECT_THROW(checkJob(job), std::invalid_argument);
}

// Messages of 30 bytes at 10^9 bytes a second take 30 ns each, one at a time, and 5 ns of latency.
// Rank 0 sends at 10 and 20: they are there at 45 and, sent from 40 on, at 75.
TEST(PipelineSimulator, MessagesTakeTurnsOnALink) {
  PipelineJob job = equalStages("gpipe", 2, 2);
  job.profiles[0].output_bytes = 30;
  job.bytes_per_second = 1e9;
  job.latency_ns = 5;
  const PipelineSimulation result = simulate(job, uniformChoices(job, 0));
  EXPECT_EQ(result.ranks[1].actions[0].begin_ns, 45);
  EXPECT_EQ(result.ranks[1].actions[1].begin_ns, 75);
  // B0 85-105, its gradient there at 140; B1 105-125, sent 135-165, there at 170; then 20 ns.
  EXPECT_EQ(result.ranks[0].actions[3].begin_ns, 170);
  EXPECT_EQ(result.makespan_ns, 190);
}

// I 10 ns, W 10 ns; 40 bytes are held from I to W. Rank 1: F0 I0 F1 I1 W0 W1.
TEST(PipelineSimulator, WeightGradientsHoldBytes) {
  PipelineJob job = equalStages("zb-h1", 2, 2);
  job.profiles[0].weight_held_bytes = 40;
  job.profiles[0].fixed_bytes = 7;
  job.profiles[0].tail_ns = 3;
  const PipelineSimulation result = simulate(job, uniformChoices(job, 0));
  // During F1 and I1: I0's 40 and 100; after I1: 80.
  EXPECT_EQ(result.ranks[1].peak_bytes, 147);
  // Rank 1: F0 10-20, I0 -30, F1 -40, I1 -50, W0, W1 -70; tail 73. Rank 0: I0 30-40, W0 -50, I1
  // 50-60, W1 -70, tail 73.
  EXPECT_EQ(result.makespan_ns, 73);
  EXPECT_EQ(result.ranks[0].idle_ns, 10);
}

TEST(PipelineSimulator, TwoPipelinesOnTheSameRanks) {
  // Two chains in opposite directions, as in DualPipe; microbatch 0 takes one, 1 the other.
  PipelineJob job = equalStages("1f1b", 2, 2);
  job.stages = {{0, 0, kNone, 1}, {0, 1, 0, kNone}, {0, 1, kNone, 3}, {0, 0, 2, kNone}};
  job.order = {actionsFromText("0F0 3F1 3B1 0B0"), actionsFromText("2F1 1F0 1B0 2B1")};
  checkJob(job);
  // F 0-10, F 10-20, B 20-40, B 40-60 on both.
  EXPECT_EQ(simulate(job, uniformChoices(job, 0)).makespan_ns, 60);
}

// One processor for two ranks: rank 0 F0 0-10 alone, then F1 beside rank 1's F0, both at half the
// rate, 10-30. Then rank 1 alone, B0 30-50. Rank 0's B0 and rank 1's F1 from 50 on: F1's 10 ns are
// there at 70, B0 has 10 of 20 left; beside it B1's 20 ns, at half the rate: B0 ends at 90, B1 has
// 10 left and ends at 100. Rank 0's B1 100-120: the sum of all work, as one processor never waits.
TEST(PipelineSimulator, RanksShareAProcessor) {
  PipelineJob job = equalStages("1f1b", 2, 2);
  job.processors = 1;
  const PipelineSimulation result = simulate(job, uniformChoices(job, 0));
  EXPECT_EQ(result.ranks[0].actions[1].end_ns, 30);
  EXPECT_EQ(result.ranks[1].actions[0].end_ns, 30);
  EXPECT_EQ(result.ranks[1].actions[1].end_ns, 50);
  EXPECT_EQ(result.ranks[1].actions[2].end_ns, 70);
  EXPECT_EQ(result.ranks[0].actions[2].end_ns, 90);
  EXPECT_EQ(result.ranks[1].actions[3].end_ns, 100);
  EXPECT_EQ(result.makespan_ns, 120);
  EXPECT_EQ(result.ranks[0].busy_ns, 60);
  // Rank 0 waits 30-50 and 90-100, rank 1 0-10 and 100-120.
  EXPECT_EQ(result.ranks[0].idle_ns, 30);
  EXPECT_EQ(result.ranks[1].idle_ns, 30);
}

// The same with B0's replay of 10 ns on rank 0: it begins at 30, beside rank 1's B0, both at half
// the rate. It ends at 50 before the gradient is there: hidden, though it makes rank 1 slower. B0
// of rank 1 ends at 60.
TEST(PipelineSimulator, ReplaysThatShareAProcessorHide) {
  PipelineJob job = equalStages("1f1b", 2, 2);
  job.processors = 1;
  StageChoices choices = uniformChoices(job, 0);
  choices[0][0] = 1;
  const PipelineSimulation result = simulate(job, choices);
  EXPECT_EQ(result.ranks[0].actions[2].replays_begin_ns, 30);
  EXPECT_EQ(result.ranks[0].actions[2].replays_end_ns, 50);
  EXPECT_EQ(result.ranks[1].actions[1].end_ns, 60);
  EXPECT_EQ(result.ranks[0].hidden_ns, 10);
  EXPECT_EQ(result.makespan_ns, 130);  // all work, of one processor
}

TEST(PipelineSimulator, SharedProcessorsAreAsMuchAsThereIs) {
  std::mt19937 random(11);
  for (int run = 0; run < 300; ++run) {
    PipelineJob job = randomJob(random, 5, 6);
    const StageChoices choices = uniformChoices(job, static_cast<std::int32_t>(random() % 3));
    const PipelineSimulation own = simulate(job, choices);
    Nanoseconds work = 0;
    for (const RankSimulation& rank : own.ranks) work += rank.busy_ns + rank.recompute_ns;
    const auto ranks = static_cast<std::int32_t>(job.ranks());
    for (std::int32_t processors = ranks + 1; processors > 0; --processors) {
      SCOPED_TRACE("run " + std::to_string(run) + ", " + std::to_string(processors));
      job.processors = processors;
      const PipelineSimulation shared = simulate(job, choices);
      ASSERT_GE(shared.makespan_ns, own.makespan_ns);
      ASSERT_GE((shared.makespan_ns + 1) * processors, work);  // rounded to a nanosecond
      for (std::int32_t rank = 0; rank < ranks; ++rank) {
        const RankSimulation &a = shared.ranks[rank], &b = own.ranks[rank];
        ASSERT_EQ(a.busy_ns, b.busy_ns);
        ASSERT_EQ(a.recompute_ns, b.recompute_ns);
        ASSERT_EQ(a.peak_bytes, b.peak_bytes);
        if (processors < ranks) continue;
        ASSERT_EQ(shared.makespan_ns, own.makespan_ns);
        ASSERT_EQ(a.hidden_ns, b.hidden_ns);
        ASSERT_EQ(a.idle_ns, b.idle_ns);
        for (std::size_t i = 0; i < b.actions.size(); ++i) {
          ASSERT_EQ(a.actions[i].replays_begin_ns, b.actions[i].replays_begin_ns);
          ASSERT_EQ(a.actions[i].replays_end_ns, b.actions[i].replays_end_ns);
          ASSERT_EQ(replayTimes(a.actions[i]), replayTimes(b.actions[i]));
          ASSERT_EQ(a.actions[i].begin_ns, b.actions[i].begin_ns);
          ASSERT_EQ(a.actions[i].end_ns, b.actions[i].end_ns);
        }
      }
    }
  }
}

TEST(PipelineSimulator, ChoicesMustFit) {
  const PipelineJob job = equalStages("1f1b", 2, 2);
  StageChoices choices = uniformChoices(job, 7);
  EXPECT_EQ(choices[1][1], 1);
  choices[1][1] = 2;
  EXPECT_THROW(simulate(job, choices), std::invalid_argument);
  choices[1].pop_back();
  EXPECT_THROW(simulate(job, choices), std::invalid_argument);
  choices.pop_back();
  EXPECT_THROW(simulate(job, choices), std::invalid_argument);
}

}  // namespace
}  // namespace ebbtide::scheduler
