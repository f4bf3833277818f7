#include "plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>

#include "../scheduler/small_traces.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "ebbtide/scheduler/value_copies.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::Step;
using scheduler::twoOps;
using StepKind = scheduler::Step::Kind;

// Of twoOps(): drops v1 after op 1, runs op 0 again before the event that reads it.
scheduler::Schedule withoutFirstValue() {
  scheduler::Schedule schedule;
  schedule.steps = {{StepKind::kRun, 0}, {StepKind::kRun, 1},  {StepKind::kDrop, 1},
                    {StepKind::kRun, 2}, {StepKind::kDrop, 2}, {StepKind::kRun, 0},
                    {StepKind::kRun, 3}, {StepKind::kDrop, 1}};
  return schedule;
}

TEST(Plan, ReplaysGoBeforeTheEventThatNeedsThem) {
  const auto trace = twoOps();
  const auto graph = scheduler::buildGraph(trace);
  const auto schedule = withoutFirstValue();
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
  EXPECT_TRUE(plan->restored_later[1]);
  // Op 0 reads x (value 0) alone, and runs again before event 1.
  EXPECT_EQ(plan->last_replay_read,
            (std::vector<std::int32_t>{1, scheduler::kNone, scheduler::kNone}));
}

// x lies in no block of ours, so that no schedule drops it. It is read last by the replay of op 0,
// before event 1, and held until then.
TEST(Plan, HoldsWhatIsTheProgramsUntilItIsReadLast) {
  auto trace = twoOps();
  trace.values[0].block = scheduler::kNone;
  const auto graph = scheduler::buildGraph(trace);
  ASSERT_TRUE(graph.graph.values[0].pinned);
  const auto schedule = withoutFirstValue();
  ASSERT_EQ(scheduler::validate(graph.graph, schedule), std::nullopt);
  const auto plan = makePlan(trace, graph, schedule);
  EXPECT_TRUE(plan->hold[0]);
  EXPECT_EQ(plan->events[1].drops, (std::vector<ValueId>{1, 0}));
}

// v2 is a mask (4 B as bits) whose op draws; the graph is op 0, op 1, decoding it, two events. The
// values that the trace does not have, its birth and its encoded copy, are no part of the plan.
TEST(Plan, FetchesWhatTheScheduleDecodesAgain) {
  auto trace = twoOps();
  trace.ops[1].rerunnable = false;
  trace.values[2].encoded_bytes = 4;
  trace.values[2].codec_ns = 3;
  auto graph = scheduler::buildGraph(trace);
  scheduler::addValueCopies(trace, graph);
  scheduler::Schedule schedule;
  schedule.steps = {{StepKind::kRun, 0},  {StepKind::kRun, 1},  {StepKind::kRun, 2},
                    {StepKind::kDrop, 2}, {StepKind::kRun, 2},  {StepKind::kDrop, 4},
                    {StepKind::kRun, 3},  {StepKind::kDrop, 2}, {StepKind::kRun, 4},
                    {StepKind::kDrop, 1}};
  ASSERT_EQ(scheduler::validate(graph.graph, schedule).value_or(""), "");
  const auto plan = makePlan(trace, graph, schedule);
  EXPECT_EQ(plan->replays, 0);
  EXPECT_EQ(plan->decodes, 1);
  EXPECT_EQ(plan->replayed, (std::vector<bool>{false, false}));
  EXPECT_EQ(plan->fetches_of, (std::vector<std::int32_t>{0, 0, 1}));
  EXPECT_EQ(plan->drops_after_op[1], (std::vector<ValueId>{2}));
  ASSERT_EQ(plan->events.size(), 2u);
  EXPECT_EQ(plan->events[0].prelude, (std::vector<Step>{{StepKind::kFetch, 2}}));
  EXPECT_EQ(plan->events[0].drops, (std::vector<ValueId>{2}));
  // v2 is held until it is encoded, where it is dropped; v1 for its event. Nothing reads x again.
  EXPECT_EQ(plan->hold, (std::vector<bool>{false, true, true}));
  EXPECT_TRUE(plan->restored_later[2]);
  EXPECT_EQ(plan->codec[2].encoded_bytes, 4);
}

// v2 comes back from the host: 100 B at 20 B a nanosecond, 5 ns, where op 1 takes 7.
TEST(Plan, FetchesWhatTheScheduleHasOnTheHost) {
  auto trace = twoOps();
  trace.host = {.bytes_per_second = 20'000'000'000};
  auto graph = scheduler::buildGraph(trace);
  scheduler::addValueCopies(trace, graph);
  scheduler::Schedule schedule;
  schedule.steps = {{StepKind::kRun, 0},  {StepKind::kRun, 1},  {StepKind::kRun, 2},
                    {StepKind::kDrop, 2}, {StepKind::kRun, 2},  {StepKind::kDrop, 4},
                    {StepKind::kRun, 3},  {StepKind::kDrop, 2}, {StepKind::kRun, 4},
                    {StepKind::kDrop, 1}};
  ASSERT_EQ(scheduler::validate(graph.graph, schedule).value_or(""), "");
  const auto plan = makePlan(trace, graph, schedule);
  EXPECT_EQ(plan->on_host, (std::vector<bool>{false, false, true}));
  EXPECT_EQ(plan->fetches_of, (std::vector<std::int32_t>{0, 0, 1}));
  EXPECT_EQ(plan->decodes, 0);
  EXPECT_EQ(plan->host_fetches, 1);
  EXPECT_EQ(plan->host_bytes, 100);
  EXPECT_EQ(plan->host_ns, 5);
  EXPECT_EQ(plan->events[0].prelude, (std::vector<Step>{{StepKind::kFetch, 2}}));
}

// twoOps() where the program asks for two messages between its two nodes: ops 3 and 4 wait, and
// events 2 and 5 read v2 and v1. x is received before the step's first op.
scheduler::Trace receives() {
  using Kind = scheduler::TraceEvent::Kind;
  auto trace = twoOps();
  trace.group_rank = 0;
  trace.group_size = 2;
  trace.messages = {{true, 1, 50, 0}, {true, 1, 50, 0}, {true, 1, 50, 0}};
  trace.events.insert(trace.events.begin() + 11, {{Kind::kMessage, 1, 9}, {Kind::kMessage, 2, 9}});
  trace.events.insert(trace.events.begin(), {Kind::kMessage, 0, 0});
  return trace;
}

TEST(Plan, ReplaysGoAheadOfAWait) {
  const auto trace = receives();
  const auto graph = scheduler::buildGraph(trace);
  ASSERT_EQ(graph.graph.ops.size(), 7u);
  scheduler::Schedule schedule;  // op 0 waits; ops 1 and 2; event 3; waits 4 and 5; event 6
  schedule.steps = {{StepKind::kRun, 0},  {StepKind::kRun, 1}, {StepKind::kRun, 2},
                    {StepKind::kDrop, 1}, {StepKind::kRun, 3}, {StepKind::kDrop, 2},
                    {StepKind::kRun, 4},  {StepKind::kRun, 1}, {StepKind::kRun, 5},
                    {StepKind::kDrop, 0}, {StepKind::kRun, 6}, {StepKind::kDrop, 1}};
  ASSERT_EQ(scheduler::validate(graph.graph, schedule).value_or(""), "");
  const auto plan = makePlan(trace, graph, schedule);
  EXPECT_TRUE(plan->receives);
  EXPECT_EQ(plan->replays, 1);
  EXPECT_EQ(plan->replays_ahead, 1);
  EXPECT_EQ(plan->events[0].drops, (std::vector<ValueId>{2}));
  EXPECT_TRUE(plan->events[1].prelude.empty());
  ASSERT_EQ(plan->waits.size(), 1u);
  const Plan::Wait& wait = plan->waits[0];
  EXPECT_EQ(wait.ops, 2);     // both
  EXPECT_EQ(wait.event, 1);   // the second comes next
  EXPECT_EQ(wait.before, 1);  // of two receives at this place it is the second
  // x is dropped after its replay, wherever that runs.
  EXPECT_EQ(wait.prelude, (std::vector<Step>{{StepKind::kRun, 0}, {StepKind::kDrop, 0}}));
  EXPECT_EQ(plan->last_replay_read[0], 1);  // it may run at event 1
  EXPECT_FALSE(makePlan(twoOps(), scheduler::buildGraph(twoOps()), withoutFirstValue())->receives);
}

TEST(Plan, ReplaysAfterTheLastEventAreRefused) {
  auto trace = receives();
  std::rotate(trace.events.begin() + 12, trace.events.begin() + 14, trace.events.end());
  const auto graph = scheduler::buildGraph(trace);
  scheduler::Schedule schedule;  // ops 5 and 6 wait
  schedule.steps = {{StepKind::kRun, 0}, {StepKind::kRun, 1}, {StepKind::kRun, 2},
                    {StepKind::kRun, 3}, {StepKind::kRun, 4}, {StepKind::kRun, 1},
                    {StepKind::kRun, 5}, {StepKind::kRun, 6}};
  ASSERT_EQ(scheduler::validate(graph.graph, schedule).value_or(""), "");
  EXPECT_THROW(makePlan(trace, graph, schedule), std::invalid_argument);
}

// The program may pass over a receive (a captured graph): its replays run at the next event then,
// and find what they read.
TEST(Plan, DropsBeforeAReplayThatMayComeLateAreRefused) {
  auto trace = twoOps();
  trace.group_rank = 0;
  trace.group_size = 2;
  trace.messages = {{true, 1, 50, 0}};
  trace.events.insert(trace.events.begin() + 3, {scheduler::TraceEvent::Kind::kMessage, 0, 2});
  const auto graph = scheduler::buildGraph(trace);
  scheduler::Schedule schedule;  // op 0, 1 waits, op 2, events 3 (v2) and 4 (v1)
  schedule.steps = {{StepKind::kRun, 0}, {StepKind::kDrop, 1}, {StepKind::kRun, 0},
                    {StepKind::kRun, 1}, {StepKind::kRun, 2},  {StepKind::kRun, 3},
                    {StepKind::kRun, 4}};
  ASSERT_EQ(scheduler::validate(graph.graph, schedule).value_or(""), "");
  EXPECT_EQ(makePlan(trace, graph, schedule)->replays_ahead, 1);
  schedule.steps.insert(schedule.steps.begin() + 5, {StepKind::kDrop, 0});  // x, after op 2
  ASSERT_EQ(scheduler::validate(graph.graph, schedule).value_or(""), "");
  EXPECT_THROW(makePlan(trace, graph, schedule), std::invalid_argument);
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
  EXPECT_NE(scheduler::validate(graph.graph, schedule), std::nullopt);
  EXPECT_THROW(makePlan(trace, graph, schedule), std::invalid_argument);
}

// Recorded steps, one of them of two microbatches: what is legal can be executed.
TEST(Plan, IsMadeOfEveryPlannersSchedule) {
  int replays = 0;
  for (const char* name : {"gpt_step", "cnn_step"}) {
    std::ifstream file(std::string(EBBTIDE_TEST_DATA) + "/" + name + ".json");
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const auto trace = scheduler::traceFromJson(text);
    const auto graph = scheduler::buildGraph(trace);
    const auto plain = scheduler::simulate(graph.graph, scheduler::keepEverything(graph.graph));
    for (const auto& planner : scheduler::planners()) {
      SCOPED_TRACE(planner->info().name);
      scheduler::PlannerOptions options;
      options.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
      try {
        const auto schedule =
            planner->plan(graph.graph, plain.peak_bytes - graph.activation_bytes / 2, options)
                .schedule;
        ASSERT_EQ(scheduler::validate(graph.graph, schedule).value_or(""), "");
        std::shared_ptr<Plan> plan;
        ASSERT_NO_THROW(plan = makePlan(trace, graph, schedule));
        replays += plan->replays > 0 ? 1 : 0;
      } catch (const std::invalid_argument& missing) {
        EXPECT_NE(std::string(missing.what()).find("no solver"), std::string::npos);
      }
    }
  }
  EXPECT_GE(replays, 20);  // of two graphs and some fifteen planners that need no solver
}

}  // namespace
}  // namespace ebbtide::plugin
