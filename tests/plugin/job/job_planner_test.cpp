#include "job/job_planner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "ebbtide/scheduler/hidden_replays.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "ebbtide/scheduler/value_copies.hpp"
#include "job/job_findings.hpp"
#include "job/job_plan.hpp"
#include "job/rank_planning.hpp"
#include "recorded_rank.hpp"

namespace ebbtide::plugin {
namespace {

using Kind = scheduler::PipelineAction::Kind;
using scheduler::Trace;

// 1F1B of two ranks and two microbatches; forward 10 ns, backward 20; points: 100 bytes held, or 20
// and 10 ns of replays.
std::vector<RankReport> twoRanks() {
  std::vector<RankReport> reports(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    RankReport& report = reports[rank];
    report.versions = {JobVersions::kProtocol, "0.1.0", "2.11.0"};
    report.rank = rank;
    report.size = 2;
    report.host = "node" + std::to_string(rank);
    report.budget_bytes = 1000;
    report.short_of_memory = true;
    report.classes = {{{{100, 100, 100, 0}, {20, 30, 110, 10}}, 0, {10, 20, 0, 0}}};
    report.chunks = {{.own_replay_ns = 0}, {.own_replay_ns = 0}};
    const std::int32_t other = 1 - rank;
    const auto forward = [&](std::int32_t chunk) {
      report.actions.push_back({Kind::kForward, chunk, {{rank == 1, other, 8}}});
    };
    const auto backward = [&](std::int32_t chunk) {
      report.actions.push_back({Kind::kBackward, chunk, {{rank == 0, other, 8}}});
    };
    forward(0);
    if (rank == 0) forward(1);
    backward(0);
    if (rank == 1) forward(1);
    backward(1);
  }
  return reports;
}

JobPlan planned(const std::vector<RankReport>& reports) {
  const JobPlanning planning = planJob(reports);
  EXPECT_TRUE(planning.plan) << planning.why_not;
  return planFromText(planning.plan.value_or(toText(JobPlan{})));
}

TEST(JobPlanner, IsNotNeededWhereEveryStepFits) {
  std::vector<RankReport> reports = twoRanks();
  for (RankReport& report : reports) report.short_of_memory = false;
  const JobPlanning planning = planJob(reports);
  EXPECT_FALSE(planning.plan);
  EXPECT_FALSE(planning.needed);
}

// Rank 0 may hold 130 bytes: 100 of one microbatch and the 30 that the other one takes forward. It
// waits 20 ns before its first backward pass and 10 before the second (HiddenReplays), so the 10 ns
// of either are hidden. By its own plan it replays 30 ns before the second.
TEST(JobPlanner, ReplaysWhereARankWaits) {
  std::vector<RankReport> reports = twoRanks();
  reports[0].budget_bytes = 130;
  reports[0].chunks[1].own_replay_ns = 30;
  const JobPlan plan = planned(reports);
  EXPECT_EQ(plan.own_makespan_ns, 110);
  EXPECT_EQ(plan.makespan_ns, 90);
  ASSERT_EQ(plan.ranks.size(), 2U);
  EXPECT_FALSE(plan.ranks[0].own);
  EXPECT_EQ(plan.ranks[0].points[0] + plan.ranks[0].points[1], 1);  // one of both replays
  EXPECT_EQ(plan.ranks[1].points, (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(plan.ranks[0].free[0] * plan.free_unit_ns, 20);
}

TEST(JobPlanner, KeepsOwnPlansThatAreAsQuick) {
  std::vector<RankReport> reports = twoRanks();
  reports[0].budget_bytes = 130;
  reports[0].chunks[0].own_replay_ns = 10;
  const JobPlan plan = planned(reports);
  EXPECT_EQ(plan.makespan_ns, 90);
  EXPECT_TRUE(plan.ranks[0].own);
}

// On one processor a wait of rank 0 is work of rank 1: nothing is hidden, and 120 ns of work and 10
// of replays take 130.
TEST(JobPlanner, HidesNothingWhereRanksShareAProcessor) {
  std::vector<RankReport> reports = twoRanks();
  for (RankReport& report : reports) {
    report.host = "node";
    report.host_processors = 1;
  }
  reports[0].budget_bytes = 130;
  reports[0].chunks[1].own_replay_ns = 30;
  const JobPlan plan = planned(reports);
  EXPECT_EQ(plan.own_makespan_ns, 150);
  EXPECT_EQ(plan.makespan_ns, 130);
  EXPECT_EQ(plan.ranks[0].free, (std::vector<std::int32_t>{0, 0}));
}

// 10 ns forward, 20 backward, of two microbatches, forward first. Rank 0 has room for one.
std::vector<RankReport> threeRanks() {
  std::vector<RankReport> reports(3, twoRanks().front());
  for (std::int32_t rank = 0; rank < 3; ++rank) {
    RankReport& report = reports[rank];
    report.rank = rank;
    report.size = 3;
    report.host = "node" + std::to_string(rank);
    report.actions.clear();
    for (const bool forward : {true, false}) {
      const std::int32_t from = forward ? rank - 1 : rank + 1, to = 2 * rank - from;
      std::vector<RankReport::Message> messages;
      if (from >= 0 && from < 3) messages.push_back({true, from, 8});
      if (to >= 0 && to < 3) messages.push_back({false, to, 8});
      for (const std::int32_t chunk : {0, 1})
        report.actions.push_back({forward ? Kind::kForward : Kind::kBackward, chunk, messages});
    }
  }
  reports[0].budget_bytes = 130;
  reports[0].chunks[1].own_replay_ns = 30;
  return reports;
}

bool hidesAny(const std::vector<RankReport>& reports) {
  const JobPlan plan = planned(reports);
  return std::any_of(plan.ranks.begin(), plan.ranks.end(), [](const JobPlan::Rank& rank) {
    return std::any_of(rank.free.begin(), rank.free.end(), [](auto units) { return units > 0; });
  });
}

// Two of the ranks are on one host, and bound there to one processor each, or the same.
TEST(JobPlanner, HidesNothingWhereOneHostHasTooFewProcessors) {
  std::vector<RankReport> reports = threeRanks();
  for (RankReport& report : reports) report.host_processors = 1;
  EXPECT_TRUE(hidesAny(reports));
  reports[1].host = reports[0].host;
  EXPECT_FALSE(hidesAny(reports));
  reports[2].host_processors = 8;
  EXPECT_FALSE(hidesAny(reports));
  reports[1].host_processors = 2;  // the other one says one
  EXPECT_FALSE(hidesAny(reports));
  reports[0].host_processors = 2;
  EXPECT_TRUE(hidesAny(reports));
  reports[0].host_processors = reports[1].host_processors = 0;  // GPUs
  EXPECT_TRUE(hidesAny(reports));
}

TEST(JobPlanner, SaysNothingOnceItIsStopped) {
  std::vector<RankReport> reports = twoRanks();
  reports[0].budget_bytes = 130;
  reports[0].chunks[1].own_replay_ns = 30;
  const std::atomic<bool> stop = true, goes_on = false;
  const JobPlanning stopped = planJob(reports, &stop);
  EXPECT_TRUE(stopped.stopped);
  EXPECT_FALSE(stopped.plan || stopped.findings);
  EXPECT_EQ(planJob(reports, &goes_on).plan, planJob(reports).plan);
}

JobFindings foundIn(const JobPlanning& planning) {
  EXPECT_TRUE(planning.findings) << planning.why_not;
  return findingsFromText(planning.findings.value_or(toText(JobFindings{})));
}

// Stages in the order of the data, whatever the ranks' budgets: a rank that asks has another one
// by them.
TEST(JobPlanner, TellsRanksTheirStagesBeforeItPlans) {
  std::vector<RankReport> reports = twoRanks();
  reports[0].budget_bytes = 1;
  reports[1].asks_stages = true;
  const JobPlanning planning = planJob(reports);
  EXPECT_FALSE(planning.plan);
  EXPECT_FALSE(planning.needed);
  EXPECT_TRUE(planning.again);
  JobFindings expected;
  expected.ranks = {{.stages = {0}}, {.stages = {1}}};
  EXPECT_EQ(foundIn(planning), expected);
}

// With all recomputed a backward takes 110 bytes, beside the 20 of the other microbatch that rank 0
// has in flight: 130, 11 more than it may hold. Rank 1 leaves 1000 - 110.
TEST(JobPlanner, SaysWhoCouldHelpARankThatCannotFit) {
  std::vector<RankReport> reports = twoRanks();
  reports[0].budget_bytes = 119;
  reports[0].own_peak_bytes = 140;
  reports[0].chunks[0].own_replay_ns = reports[0].chunks[1].own_replay_ns = 10;
  reports[1].global_rank = 5;
  JobFindings expected;
  expected.ranks = {{.stages = {0}, .excess_bytes = 11, .taker = 5, .spare_bytes = 890},
                    {.stages = {1}}};
  EXPECT_EQ(foundIn(planJob(reports)), expected);
  reports[1].budget_bytes = 110;  // it fits, with nothing to spare
  expected.ranks[0] = {.stages = {0}, .excess_bytes = 11};
  EXPECT_EQ(foundIn(planJob(reports)), expected);
  reports[0].own_peak_bytes = 121;  // its own plan is the smaller one
  expected.ranks[0].excess_bytes = 2;
  EXPECT_EQ(foundIn(planJob(reports)), expected);
  reports[0].own_peak_bytes = 119;
  EXPECT_FALSE(planJob(reports).findings);
  reports[0].own_peak_bytes = 140;
  reports[0].budget_bytes = 130;
  EXPECT_FALSE(planJob(reports).findings);
}

TEST(JobPlanner, RefusesRanksThatDoNotFitTogether) {
  std::vector<RankReport> reports = twoRanks();
  reports[1].actions[0].messages[0].bytes = 9;
  EXPECT_THROW(planJob(reports), std::invalid_argument);
  EXPECT_EQ(stagesOf(reports), std::nullopt);
}

TEST(JobPlanner, KnowsTheStagesByNameOrByMessages) {
  using Stages = std::vector<std::int32_t>;
  std::vector<RankReport> reports = twoRanks();
  EXPECT_EQ(stagesOf(reports), (Stages{0, 1}));
  for (RankReport& report : reports) {
    for (auto& chunk : report.chunks) chunk.stage = report.rank == 0 ? 7 : 3;
  }
  EXPECT_EQ(stagesOf(reports), (Stages{3, 7}));
  reports[0].chunks[1].stage = scheduler::kNone;  // not all have one: messages tell
  EXPECT_EQ(stagesOf(reports), std::nullopt);     // and they make it stage 0
  for (auto& chunk : reports[0].chunks) chunk.stage = 0;
  reports[0].chunks[1].stage = scheduler::kNone;
  for (auto& chunk : reports[1].chunks) chunk.stage = 1;
  EXPECT_EQ(stagesOf(reports), (Stages{0, 1}));
}

// Of the schedule's replays what the plan does not say is free.
Nanoseconds exposedNs(const StepSchedule& of, const Trace& trace, const JobPlan& plan, int rank) {
  const auto chunks = scheduler::microbatchOps(of.step, scheduler::recogniseActions(trace));
  std::vector<Nanoseconds> free_ns;
  for (const std::int32_t units : plan.ranks[rank].free)
    free_ns.push_back(units * plan.free_unit_ns);
  return scheduler::exposedNs(scheduler::replaysOf(of.step.graph, chunks, of.schedule), free_ns);
}

// Four recorded processes, each with seven tenths of its peak: what they report comes to a plan,
// and what a rank makes of it is legal, within its cap, and replays no more that shows.
TEST(RankPlanning, FollowsTheJobsPlanWithinItsCap) {
  constexpr int kRanks = 4;
  std::vector<Trace> traces;
  std::vector<StepSchedule> own;
  std::vector<RankPlanning> ranks;
  std::vector<RankPlanning::Limits> limits;
  std::vector<RankReport> reports;
  for (int rank = 0; rank < kRanks; ++rank) {
    traces.push_back(recordedRank(rank));
    scheduler::TraceGraph step = scheduler::buildGraph(traces.back());
    const Bytes plain =
        scheduler::simulate(step.graph, scheduler::keepEverything(step.graph)).peak_bytes;
    scheduler::addValueCopies(traces.back(), step);
    limits.push_back({.cap_bytes = plain * 7 / 10,
                      .planning_time = std::chrono::minutes(10),
                      .planner = "greedy"});
    auto result = scheduler::planner("greedy").plan(step.graph, limits.back().cap_bytes, {});
    own.push_back({std::move(step), std::move(result.schedule), "greedy"});
    ranks.emplace_back(
        RankPlanning::Identity{.versions = {JobVersions::kProtocol, "0.1.0", "2.11.0"}});
    reports.push_back(ranks.back().study(traces.back(), own.back(), limits.back()));
    ASSERT_EQ(reports.back().unable, "");
    EXPECT_EQ(reports.back().rank, rank);
    EXPECT_TRUE(reports.back().short_of_memory);
    ASSERT_EQ(reports.back().classes.size(), 1U);
    EXPECT_GE(reports.back().classes[0].points.size(), 2U);
    EXPECT_TRUE(reportFromText(toText(reports.back())) == reports.back());
  }
  JobPlan plan = planned(reports);
  EXPECT_LE(plan.makespan_ns, plan.own_makespan_ns);
  EXPECT_GE(plan.makespan_ns, plan.bound_ns);
  int followed = 0;
  for (const bool late : {true, false}) {
    for (int rank = 0; rank < kRanks; ++rank) {
      plan.ranks[rank].own = false;
      // As if the replays of one half were free, and the job wanted the second points.
      plan.ranks[rank].points.assign(plan.ranks[rank].points.size(), 1);
      for (std::size_t c = 0; c < plan.ranks[rank].free.size(); ++c)
        plan.ranks[rank].free[c] = (c >= plan.ranks[rank].free.size() / 2) == late ? 1000 : 0;
      const auto found = ranks[rank].follow(plan, traces[rank], own[rank], limits[rank]);
      if (!found) continue;
      ++followed;
      ASSERT_EQ(scheduler::validate(found->step.graph, found->schedule), std::nullopt);
      const Bytes own_peak =
          scheduler::simulate(own[rank].step.graph, own[rank].schedule).peak_bytes;
      EXPECT_LT(exposedNs(*found, traces[rank], plan, rank),
                exposedNs(own[rank], traces[rank], plan, rank));
      EXPECT_LE(scheduler::simulate(found->step.graph, found->schedule).peak_bytes,
                std::max(limits[rank].cap_bytes, own_peak));
    }
  }
  EXPECT_GT(followed, 0);
  Trace other = traces[0];
  other.signature += 1;
  EXPECT_FALSE(ranks[0].follow(plan, other, own[0], limits[0]));
}

// torch asks for inputs long before they are read: in the order of what reads them, 1F2 would begin
// before it receives what 0F2 sends.
TEST(RankPlanning, OfAZeroBubbleScheduleFitsTogether) {
  std::vector<RankReport> reports;
  for (int rank = 0; rank < 2; ++rank) {
    const Trace trace = recordedRank(rank, "zero-bubble");
    scheduler::TraceGraph step = scheduler::buildGraph(trace);
    scheduler::Schedule everything = scheduler::keepEverything(step.graph);
    RankPlanning planning({.versions = {JobVersions::kProtocol, "0.1.0", "2.11.0"}});
    const RankReport report = planning.study(trace, {std::move(step), std::move(everything), ""},
                                             {.cap_bytes = Bytes{1} << 40, .asks_stages = true});
    ASSERT_EQ(report.unable, "");
    reports.push_back(reportFromText(toText(report)));
  }
  const JobFindings found = foundIn(planJob(reports));
  ASSERT_EQ(found.ranks.size(), 2U);
  EXPECT_EQ(found.ranks[0].stages, (std::vector<std::int32_t>{0, 2}));
  EXPECT_EQ(found.ranks[1].stages, (std::vector<std::int32_t>{1, 3}));
}

TEST(RankPlanning, SaysWhyAStepIsNone) {
  Trace trace = recordedRank(0);
  trace.messages.clear();
  std::erase_if(trace.events, [](const scheduler::TraceEvent& event) {
    return event.kind == scheduler::TraceEvent::Kind::kMessage;
  });
  scheduler::TraceGraph step = scheduler::buildGraph(trace);
  scheduler::Schedule everything = scheduler::keepEverything(step.graph);
  RankPlanning rank({});
  const RankReport report =
      rank.study(trace, {std::move(step), std::move(everything), ""}, {.cap_bytes = 1 << 30});
  EXPECT_NE(report.unable, "");
}

}  // namespace
}  // namespace ebbtide::plugin
