#include "plan.hpp"

#include <gtest/gtest.h>

#include "../scheduler/small_traces.hpp"
#include "ebbtide/scheduler/validator.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::Step;
using scheduler::twoOps;
using StepKind = scheduler::Step::Kind;

TEST(Plan, ReplaysGoBeforeTheEventThatNeedsThem) {
  const auto trace = twoOps();
  const auto graph = scheduler::buildGraph(trace);
  // Drop v1 after op 1, run op 0 again before the event that reads it.
  scheduler::Schedule schedule;
  schedule.steps = {{StepKind::kRun, 0}, {StepKind::kRun, 1},  {StepKind::kDrop, 1},
                    {StepKind::kRun, 2}, {StepKind::kDrop, 2}, {StepKind::kRun, 0},
                    {StepKind::kRun, 3}, {StepKind::kDrop, 1}};
  ASSERT_EQ(scheduler::validate(graph.graph, schedule), std::nullopt);
  const auto plan = makePlan(trace, graph, schedule);
  EXPECT_EQ(plan->replays, 1);
  EXPECT_EQ(plan->replayed, (std::vector<bool>{true, false}));
  EXPECT_EQ(plan->drops_after_op[1], (std::vector<ValueId>{1}));
  ASSERT_EQ(plan->events.size(), 2u);
  EXPECT_TRUE(plan->events[0].prelude.empty());
  EXPECT_EQ(plan->events[1].prelude, (std::vector<Step>{{StepKind::kRun, 0}}));
  EXPECT_EQ(plan->events[1].drops, (std::vector<ValueId>{1}));
  EXPECT_EQ(plan->events_of_use, (std::vector<std::vector<std::int32_t>>{{1}, {0}}));
  // v1 is held from birth (dropped only after op 1); x is read by the replay, so it is held too.
  EXPECT_EQ(plan->hold, (std::vector<bool>{true, true, true}));
  EXPECT_TRUE(plan->recomputed_later[1]);
  // Op 0 reads x (value 0) alone, and runs again before event 1.
  EXPECT_EQ(plan->last_replay_read,
            (std::vector<std::int32_t>{1, scheduler::kNone, scheduler::kNone}));
}

TEST(Plan, ReplayBeforeAForwardOpIsRefused) {
  const auto trace = twoOps();
  const auto graph = scheduler::buildGraph(trace);
  scheduler::Schedule schedule;
  schedule.steps = {{StepKind::kRun, 0},
                    {StepKind::kRun, 0},
                    {StepKind::kRun, 1},
                    {StepKind::kRun, 2},
                    {StepKind::kRun, 3}};
  EXPECT_THROW(makePlan(trace, graph, schedule), std::invalid_argument);
}

}  // namespace
}  // namespace ebbtide::plugin
