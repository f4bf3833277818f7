#include "plan/plan_picture.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"

namespace ebbtide::plugin {
namespace {

using Slice = PlanPicture::Slice;

constexpr double kRounding = 1e-9;  // seconds

scheduler::Trace recordedRank(int rank) {
  std::ifstream file(std::string(EBBTIDE_RANK_TRACES) + "/trace-" + std::to_string(rank) + ".json");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return scheduler::traceFromJson(text);
}

double endOf(const std::vector<Slice>& slices) {
  return slices.back().start_seconds + slices.back().seconds;
}

std::vector<Slice> actionsOf(const std::vector<Slice>& slices) {
  std::vector<Slice> actions;
  for (const Slice& slice : slices) {
    if (slice.kind == "forward" || slice.kind == "backward") actions.push_back(slice);
  }
  return actions;
}

class PipelinePicture : public testing::TestWithParam<int> {
 protected:
  const scheduler::Trace trace_ = recordedRank(GetParam());
  const scheduler::TraceGraph step_ = scheduler::buildGraph(trace_);
  const scheduler::Schedule kept_ = scheduler::keepEverything(step_.graph);
};

// Two stages, one on each rank, four microbatches: a forward and a backward of each.
TEST_P(PipelinePicture, WithNothingDroppedIsTheRecordedStep) {
  const std::vector<Slice> slices = drawPlan(trace_, step_, kept_).slices;
  EXPECT_EQ(actionsOf(slices).size(), 8U);
  for (const Slice& slice : slices) EXPECT_NE(slice.kind, "recompute");
  EXPECT_LE(endOf(slices), static_cast<double>(trace_.duration_ns) * 1e-9);
}

TEST_P(PipelinePicture, HasTheReplaysBeforeWhatNeedsThem) {
  const scheduler::Simulation plain = scheduler::simulate(step_.graph, kept_);
  const scheduler::Bytes least = scheduler::peakLowerBound(step_.graph);
  const scheduler::PlanResult planned =
      scheduler::planner("greedy").plan(step_.graph, (plain.peak_bytes + least) / 2, {});
  const PlanPicture picture = drawPlan(trace_, step_, planned.schedule);
  const std::vector<Slice> before = drawPlan(trace_, step_, kept_).slices;
  double replayed = 0, drawn = 0, now = 0;
  for (const PlanPicture::Recomputed& row : picture.recomputed) replayed += row.seconds;
  ASSERT_GT(replayed, 0);
  for (std::size_t i = 0; i < picture.slices.size(); ++i) {
    const Slice& slice = picture.slices[i];
    EXPECT_NEAR(slice.start_seconds, now, kRounding);  // one after the other
    now = slice.start_seconds + slice.seconds;
    if (slice.kind != "recompute") continue;
    drawn += slice.seconds;
    // Of the action that comes next, a wait may lie between.
    const auto after =
        actionsOf({picture.slices.begin() + static_cast<std::ptrdiff_t>(i), picture.slices.end()});
    ASSERT_FALSE(after.empty());
    EXPECT_EQ(slice.microbatch, after[0].microbatch);
    EXPECT_EQ(slice.stage, after[0].stage);
    EXPECT_EQ(after[0].kind, "backward");
  }
  EXPECT_NEAR(drawn, replayed, kRounding);

  // The actions are as they were, none earlier, and at most as late as all replays take.
  const auto planned_actions = actionsOf(picture.slices), recorded_actions = actionsOf(before);
  ASSERT_EQ(planned_actions.size(), recorded_actions.size());
  for (std::size_t i = 0; i < planned_actions.size(); ++i) {
    EXPECT_EQ(planned_actions[i].kind, recorded_actions[i].kind);
    EXPECT_EQ(planned_actions[i].microbatch, recorded_actions[i].microbatch);
    EXPECT_NEAR(planned_actions[i].seconds, recorded_actions[i].seconds, kRounding);
    const double late = planned_actions[i].start_seconds - recorded_actions[i].start_seconds;
    EXPECT_GE(late, -kRounding);
    EXPECT_LE(late, replayed + kRounding);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, PipelinePicture, testing::Values(0, 1));

}  // namespace
}  // namespace ebbtide::plugin
