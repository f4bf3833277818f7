#include "ebbtide/scheduler/hidden_replays.hpp"

#include <gtest/gtest.h>

#include <random>

#include "ebbtide/scheduler/pipeline_simulator.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "pipeline_jobs.hpp"
#include "random_graphs.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

using Replays = std::vector<std::vector<Nanoseconds>>;

// 1F1B, 2 ranks, 2 microbatches: forward 10, backward 20.
//   rank 0   F0 0-10, F1 10-20, waits for the gradient until 40: B0 40-60, B1 70-90
//   rank 1   F0 10-20, B0 20-40, F1 40-50, B1 50-70
// So rank 0 waits 20 before B0 and 10 before B1, rank 1 never before a backward pass.
TEST(HiddenReplays, AreThoseOfWaits) {
  const PipelineJob job = equalStages("1f1b", 2, 2);
  const ReplayedStep none = replayedStep(job, {{0, 0}, {0, 0}});
  EXPECT_EQ(none.makespan_ns, 90);
  EXPECT_EQ(none.free_ns, (Replays{{20, 10}, {0, 0}}));
  const ReplayedStep hidden = replayedStep(job, {{20, 10}, {0, 0}});
  EXPECT_EQ(hidden.makespan_ns, 90);
  // 5 more before B0 end it at 65, and B1 still begins at 75: 10 of replays before it after 65,
  // then its gradient, there since 70.
  const ReplayedStep late = replayedStep(job, {{25, 10}, {0, 0}});
  EXPECT_EQ(late.makespan_ns, 95);
}

TEST(HiddenReplays, WaitForTheGradientWhereNoneRunAhead) {
  PipelineJob job = equalStages("1f1b", 2, 2);
  job.replays_ahead = false;
  EXPECT_EQ(replayedStep(job, {{0, 0}, {0, 0}}).free_ns, (Replays{{0, 0}, {0, 0}}));
  // B0 40-60 is followed by a wait until 70, so 5 more before it are made up for.
  const ReplayedStep step = replayedStep(job, {{5, 0}, {0, 0}});
  EXPECT_EQ(step.makespan_ns, 90);
  EXPECT_EQ(step.free_ns[0][0], 5);
}

// The planner's clock and the simulator's agree on random jobs, and free replays are free: less of
// them makes no step shorter, and what waits leave makes none longer.
TEST(HiddenReplays, CostNothing) {
  int hidden = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    PipelineJob job = randomJob(random, 4, 5);
    job.budgets.assign(job.ranks(), 1 << 20);  // room for all replays
    StageChoices choices = uniformChoices(job, 0);
    Replays replays;
    for (std::size_t stage = 0; stage < job.stages.size(); ++stage) {
      const auto& points = job.profileOf(static_cast<std::int32_t>(stage)).points;
      auto& of = replays.emplace_back();
      for (std::int32_t& choice : choices[stage]) {
        choice = static_cast<std::int32_t>(random() % points.size());
        of.push_back(points[choice].recompute_ns);
      }
    }
    const ReplayedStep step = replayedStep(job, replays);
    EXPECT_EQ(step.makespan_ns, simulate(job, choices).makespan_ns);
    for (std::size_t stage = 0; stage < replays.size(); ++stage) {
      for (std::size_t m = 0; m < replays[stage].size(); ++m) {
        Replays other = replays;
        other[stage][m] = std::max(replays[stage][m], step.free_ns[stage][m]);
        EXPECT_EQ(replayedStep(job, other).makespan_ns, step.makespan_ns);
        hidden += step.free_ns[stage][m] > 0;
      }
    }
  }
  EXPECT_GT(hidden, 300);
}

TEST(HiddenReplays, CountForTheBackwardPassThatFollows) {
  // f0 f1 | b2 | f3 f4 | b5: two microbatches of two ops; backward reads the first op's value.
  Graph graph;
  const ValueId a = addForward(graph, {}, 10, 7);
  addForward(graph, {a}, 1, 1);
  addEvent(graph, {a});
  const ValueId b = addForward(graph, {}, 10, 9);
  addForward(graph, {b}, 1, 1);
  addEvent(graph, {b});
  const std::vector<MicrobatchOps> microbatches = {{{0, 1}, {2}}, {{3, 4}, {5}}};
  const Schedule replays_both{{run(0), run(1), drop(a), run(0), run(2), drop(a), run(3), run(4),
                               drop(b), run(3), run(5), drop(b)}};
  ASSERT_EQ(validate(graph, replays_both), std::nullopt);
  EXPECT_EQ(replaysOf(graph, microbatches, replays_both), (std::vector<Nanoseconds>{7, 9}));
  EXPECT_EQ(exposedNs({7, 9}, {10, 4}), 5);
}

// Of two values of 10 bytes one has to go while an op takes 100 of 115: the one whose replay is
// free.
TEST(HiddenReplays, AreMovedToWhereTheyAreFree) {
  Graph graph;
  std::vector<MicrobatchOps> microbatches(2);
  std::vector<ValueId> kept;
  for (MicrobatchOps& of : microbatches) {
    of.forward = {static_cast<OpId>(graph.ops.size())};
    kept.push_back(addForward(graph, {}, 10, 8));
  }
  graph.ops.push_back({.name = "others", .fixed_bytes = 100});
  for (std::size_t m = 0; m < 2; ++m) microbatches[m].backward = {addEvent(graph, {kept[m]})};
  const Schedule start{{run(0), drop(kept[0]), run(1), run(2), run(0), run(3), drop(kept[0]),
                        run(4), drop(kept[1])}};
  ASSERT_EQ(validate(graph, start), std::nullopt);
  ASSERT_EQ(simulate(graph, start).peak_bytes, 110);
  EXPECT_EQ(exposeLess(graph, microbatches, {8, 0}, 115, start, {}).steps, start.steps);
  const Schedule other = exposeLess(graph, microbatches, {0, 8}, 115, start, {});
  ASSERT_EQ(validate(graph, other), std::nullopt);
  EXPECT_LE(simulate(graph, other).peak_bytes, 115);
  EXPECT_EQ(replaysOf(graph, microbatches, other), (std::vector<Nanoseconds>{0, 8}));
}

}  // namespace
}  // namespace ebbtide::scheduler
