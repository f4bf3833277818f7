#include "ebbtide/scheduler/recorded_costs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/rank_curves.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "ebbtide/scheduler/value_copies.hpp"
#include "recorded_rank.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = PipelineAction::Kind;

struct Recorded {
  const char* pipeline;
  int rank;
};

class RecordedCostsOf : public testing::TestWithParam<Recorded> {
 protected:
  RecordedCostsOf() { addValueCopies(trace, step); }

  Bytes plainPeak() const { return simulate(step.graph, keepEverything(step.graph)).peak_bytes; }

  // As PipelineJob counts it.
  Bytes modelPeak(const RecordedCosts& costs, const std::vector<std::int32_t>& points) const {
    Bytes live = 0, peak = 0;
    for (const PartCosts& part : costs.parts) live += part.fixed_bytes;
    for (std::size_t i = 0; i < actions.actions.size(); ++i) {
      const RankAction& action = actions.actions[i];
      const PartCosts& part = costs.parts[actions.chunks[action.chunk].part];
      const StagePoint& point = part.points[points[action.chunk]];
      const bool forward = action.kind == Kind::kForward;
      const bool weights = action.kind == Kind::kWeightBackward;
      if (!forward && !weights) live -= point.held_bytes;
      peak = std::max(peak, live + costs.besides_bytes[i] +
                                (forward   ? point.forward_bytes
                                 : weights ? 0
                                           : point.backward_bytes));
      if (forward) live += point.held_bytes;
      if (action.kind == Kind::kInputBackward) live += part.weight_held_bytes;
      if (weights) live -= part.weight_held_bytes;
    }
    return peak;
  }

  Trace trace = recordedRank(GetParam().pipeline, GetParam().rank);
  RankActions actions = recogniseActions(trace);
  TraceGraph step = buildGraph(trace);
};

double ratio(Bytes a, Bytes b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

// Times are scaled, and bytes are more for all points alike by what is no value's.
std::int32_t placeOf(const PartCosts& costs, std::int32_t at,
                     const std::vector<MicrobatchPoint>& curve) {
  const Bytes dropped = costs.points[0].held_bytes - costs.points[at].held_bytes;
  const auto found = std::find_if(curve.begin(), curve.end(), [&](const MicrobatchPoint& each) {
    return curve[0].point.held_bytes - each.point.held_bytes == dropped;
  });
  return static_cast<std::int32_t>(found - curve.begin());
}

// With everything kept the peak is the step's. With any points it is hardly less than their
// schedule takes. It is more where the schedule drops early, most so in the zero bubble step
// (1.18). There microbatches are counted with all that a kept graph holds between two passes.
TEST_P(RecordedCostsOf, AreThoseOfTheStep) {
  std::mt19937 random(1);
  const Bytes plain = plainPeak();
  int replayed = 0;
  for (const int percent : {100, 80, 60}) {
    const Bytes budget = plain * percent / 100;
    const RecordedCosts costs = costsOfParts(trace, actions, budget);
    EXPECT_EQ(costs.no_curves, "");
    ASSERT_EQ(costs.parts.size(), static_cast<std::size_t>(actions.parts));
    EXPECT_NEAR(ratio(modelPeak(costs, std::vector<std::int32_t>(actions.chunks.size(), 0)), plain),
                1, 0.03)
        << percent;
    RankCurves curves(step, actions);
    curves.trace(budget, {.planner = "greedy"});
    for (int mixture = 0; mixture < 10; ++mixture) {
      std::vector<std::int32_t> points, of_curve;
      for (const RankChunk& chunk : actions.chunks) {
        const PartCosts& of_part = costs.parts[chunk.part];
        points.push_back(static_cast<std::int32_t>(random() % of_part.points.size()));
        of_curve.push_back(placeOf(of_part, points.back(), curves.curve(chunk.part)));
      }
      const Schedule whole = curves.compose(step.graph, curves, of_curve);
      ASSERT_EQ(validate(step.graph, whole), std::nullopt);
      const Simulation simulated = simulate(step.graph, whole);
      const double said = ratio(modelPeak(costs, points), simulated.peak_bytes);
      EXPECT_GT(said, 0.95) << percent << " %, mixture " << mixture;
      EXPECT_LT(said, 1.2) << percent << " %, mixture " << mixture;
      replayed += simulated.recompute_ns > 0;
    }
  }
  EXPECT_GT(replayed, 10);
}

// A budget that no schedule of the step fits is none that points fit. In GPipe replays move the
// peak to where gradients are there.
TEST_P(RecordedCostsOf, NeedNoLessThanTheStep) {
  const RecordedCosts costs = costsOfParts(trace, actions, plainPeak() * 6 / 10);
  std::vector<std::int32_t> last;
  for (const RankChunk& chunk : actions.chunks)
    last.push_back(static_cast<std::int32_t>(costs.parts[chunk.part].points.size()) - 1);
  EXPECT_GE(modelPeak(costs, last), peakLowerBound(step.graph));
}

// A rank that sent or received twice would hang the job.
TEST_P(RecordedCostsOf, NoPlanRepeatsAMessage) {
  const Bytes plain = plainPeak();
  std::vector<Schedule> schedules;
  for (const char* name : {"auto", "greedy", "dtr", "moccasin-local"}) {
    PlannerOptions options;
    if (std::string(name) != "dtr") options.named["work"] = "1000";  // the others search
    schedules.push_back(planner(name).plan(step.graph, plain * 6 / 10, options).schedule);
  }
  RankCurves curves(step, actions);
  curves.trace(plain * 6 / 10, {.planner = "greedy"});
  std::vector<std::int32_t> last;
  for (const RankChunk& chunk : actions.chunks)
    last.push_back(static_cast<std::int32_t>(curves.curve(chunk.part).size()) - 1);
  schedules.push_back(curves.compose(step.graph, curves, last));
  int messages = 0;
  for (const Schedule& schedule : schedules) {
    EXPECT_GT(simulate(step.graph, schedule).recompute_ns, 0);
    std::map<OpId, int> runs;
    for (const Step& s : schedule.steps) {
      const bool message =
          s.kind == Step::Kind::kRun && step.graph.ops[s.id].name.starts_with("c10d::");
      if (!message) continue;
      EXPECT_EQ(++runs[s.id], 1);
    }
    messages += static_cast<int>(runs.size());
  }
  EXPECT_GT(messages, 0);
}

INSTANTIATE_TEST_SUITE_P(Pipelines, RecordedCostsOf,
                         testing::Values(Recorded{"1f1b", 0}, Recorded{"1f1b", 1},
                                         Recorded{"1f1b", 2}, Recorded{"1f1b", 3},
                                         Recorded{"zero-bubble", 0}, Recorded{"zero-bubble", 1},
                                         Recorded{"gpipe", 0}, Recorded{"gpipe", 1}),
                         [](const testing::TestParamInfo<Recorded>& of) {
                           std::string name = of.param.pipeline;
                           std::erase_if(name, [](char c) { return c == '-'; });
                           return name + std::to_string(of.param.rank);
                         });

}  // namespace
}  // namespace ebbtide::scheduler
