#include "plan/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>

#include "../scheduler/random_graphs.hpp"
#include "../scheduler/small_graphs.hpp"
#include "../scheduler/small_traces.hpp"
#include "ebbtide/scheduler/advance_replays.hpp"
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

TEST(Plan, IsFollowedByStepsThatDropNearlyAllOfIt) {
  Plan plan;
  plan.predicted.drop_bytes = 1000;
  EXPECT_TRUE(plan.isFollowedBy(950));  // 95 %
  EXPECT_FALSE(plan.isFollowedBy(949));
}

TEST(Plan, ReplaysGoBeforeTheEventThatNeedsThem) {
  const auto trace = twoOps();
  const auto graph = scheduler::buildGraph(trace);
  const auto schedule = withoutFirstValue();
  ASSERT_EQ(scheduler::validate(graph.graph, schedule), std::nullopt);
  const auto plan = makePlan(trace, graph, schedule);
  EXPECT_EQ(plan->predicted.replays, 1);
  EXPECT_EQ(plan->ops.replayed, (std::vector<bool>{true, false}));
  EXPECT_EQ(plan->ops.drops_after[1], (std::vector<ValueId>{1}));
  ASSERT_EQ(plan->events.size(), 2u);
  EXPECT_TRUE(plan->events[0].prelude.empty());
  EXPECT_EQ(plan->events[1].prelude, (std::vector<Step>{{StepKind::kRun, 0}}));
  EXPECT_EQ(plan->events[1].drops, (std::vector<ValueId>{1}));
  EXPECT_EQ(plan->uses.events, (std::vector<std::vector<std::int32_t>>{{1}, {0}}));
  // v1 is held from birth (dropped only after op 1); x is read by the replay, so it is held too.
  EXPECT_EQ(plan->values.hold, (std::vector<bool>{true, true, true}));
  EXPECT_TRUE(plan->values.restored_later[1]);
  EXPECT_EQ(plan->predicted.drop_bytes,
            2 * trace.blocks[trace.values[1].block].bytes);  // v1, twice
  // Op 0 reads x (value 0) alone, and runs again before event 1.
  EXPECT_EQ(plan->values.last_replay_read,
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
  EXPECT_TRUE(plan->values.hold[0]);
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
  EXPECT_EQ(plan->predicted.replays, 0);
  EXPECT_EQ(plan->predicted.decodes, 1);
  EXPECT_EQ(plan->ops.replayed, (std::vector<bool>{false, false}));
  EXPECT_EQ(plan->values.fetches, (std::vector<std::int32_t>{0, 0, 1}));
  EXPECT_EQ(plan->ops.drops_after[1], (std::vector<ValueId>{2}));
  ASSERT_EQ(plan->events.size(), 2u);
  EXPECT_EQ(plan->events[0].prelude, (std::vector<Step>{{StepKind::kFetch, 2}}));
  EXPECT_EQ(plan->events[0].drops, (std::vector<ValueId>{2}));
  // v2 is held until it is encoded, where it is dropped; v1 for its event. Nothing reads x again.
  EXPECT_EQ(plan->values.hold, (std::vector<bool>{false, true, true}));
  EXPECT_TRUE(plan->values.restored_later[2]);
  EXPECT_EQ(plan->values.codec[2].encoded_bytes, 4);
}

// v1 is kept (op 0 is not run again), and comes back from 4 B of bits. The schedule drops it as
// soon as it is made. Something unseen may write into it until op 1 has read it: it is copied after
// that.
TEST(Plan, CopiesWhatNoOpGivesAgainOnceItIsReadLast) {
  auto trace = twoOps();
  trace.ops[0].rerunnable = false;
  trace.ops[0].kept_because = kWrittenUnseen;
  trace.values[1].encoded_bytes = 4;
  trace.values[1].codec_ns = 3;
  auto graph = scheduler::buildGraph(trace);
  scheduler::addValueCopies(trace, graph);
  scheduler::Schedule schedule;  // op 0, decoding v1, op 1, the events of v2 and of v1
  schedule.steps = {{StepKind::kRun, 0}, {StepKind::kRun, 1},  {StepKind::kDrop, 1},
                    {StepKind::kRun, 2}, {StepKind::kRun, 3},  {StepKind::kDrop, 2},
                    {StepKind::kRun, 1}, {StepKind::kDrop, 4}, {StepKind::kRun, 4},
                    {StepKind::kDrop, 1}};
  const auto plan = makePlan(trace, graph, schedule);
  EXPECT_EQ(plan->ops.rerunnable, (std::vector<bool>{false, true}));
  EXPECT_EQ(plan->ops.written_unseen, (std::vector<bool>{true, false}));
  EXPECT_EQ(plan->values.fetches, (std::vector<std::int32_t>{0, 1, 0}));
  EXPECT_TRUE(plan->ops.drops_after[0].empty());
  EXPECT_EQ(plan->ops.drops_after[1], (std::vector<ValueId>{1}));
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
  EXPECT_EQ(plan->values.on_host, (std::vector<bool>{false, false, true}));
  EXPECT_EQ(plan->values.fetches, (std::vector<std::int32_t>{0, 0, 1}));
  EXPECT_EQ(plan->predicted.decodes, 0);
  EXPECT_EQ(plan->predicted.host_fetches, 1);
  EXPECT_EQ(plan->predicted.host_bytes, 100);
  EXPECT_EQ(plan->predicted.host_ns, 5);
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
  EXPECT_EQ(plan->predicted.replays, 1);
  EXPECT_EQ(plan->predicted.replays_ahead, 1);
  EXPECT_EQ(plan->events[0].drops, (std::vector<ValueId>{2}));
  EXPECT_TRUE(plan->events[1].prelude.empty());
  ASSERT_EQ(plan->waits.size(), 1u);
  const Plan::Wait& wait = plan->waits[0];
  EXPECT_EQ(wait.ops, 2);     // both
  EXPECT_EQ(wait.event, 1);   // the second comes next
  EXPECT_EQ(wait.before, 1);  // of two receives at this place it is the second
  // x is dropped after its replay, wherever that runs.
  EXPECT_EQ(wait.prelude, (std::vector<Step>{{StepKind::kRun, 0}, {StepKind::kDrop, 0}}));
  EXPECT_EQ(plan->values.last_replay_read[0], 1);  // it may run at event 1
  EXPECT_FALSE(makePlan(twoOps(), scheduler::buildGraph(twoOps()), withoutFirstValue())->receives);
}

// Both receives and a send come in a row, which nothing holds up: the replays run when the last of
// the three has been asked for, whichever receive they go ahead of.
TEST(Plan, ReplaysGoAheadOfAWaitOnceTheWholeRowIsAskedFor) {
  using Kind = scheduler::TraceEvent::Kind;
  for (const OpId ahead_of : {4, 5}) {
    auto trace = receives();
    trace.messages.push_back({false, 1, 50, 0});
    trace.events.insert(trace.events.begin() + 14, {Kind::kMessage, 3, 9});
    const auto graph = scheduler::buildGraph(trace);
    scheduler::Schedule schedule;  // as above
    for (const OpId op : {0, 1, 2, 3, 4, 5, 6}) {
      if (op == ahead_of) schedule.steps.push_back({StepKind::kRun, 1});
      schedule.steps.push_back({StepKind::kRun, op});
      if (op == 2) schedule.steps.push_back({StepKind::kDrop, 1});
    }
    ASSERT_EQ(scheduler::validate(graph.graph, schedule).value_or(""), "");
    const auto plan = makePlan(trace, graph, schedule);
    ASSERT_EQ(plan->waits.size(), 1u);
    EXPECT_EQ(plan->waits[0].ops, 2);
    EXPECT_EQ(plan->waits[0].event, 1);
    EXPECT_EQ(plan->waits[0].before, 2);  // of three messages it is the last
  }
}

// A send before the second op is none of the receive's row. With gradients the calls are ops of the
// program, too: they end no row, and the last one's place is after the one before it.
TEST(Plan, AnOpEndsARowOfMessages) {
  using Kind = scheduler::TraceEvent::Kind;
  for (const char* name : {"second", "c10d::send"}) {
    auto trace = twoOps();
    trace.group_rank = 0;
    trace.group_size = 2;
    trace.messages = {{true, 1, 50, 0}, {false, 1, 50, 0}};
    trace.ops[1].name = name;
    trace.events.insert(trace.events.begin() + 3, {Kind::kMessage, 0, 2});  // before op 1
    trace.events.insert(trace.events.begin() + 7, {Kind::kMessage, 1, 5});  // after it
    const auto graph = scheduler::buildGraph(trace);
    scheduler::Schedule schedule;  // op 0, 1 waits, op 2, events 3 (v2) and 4 (v1)
    schedule.steps = {{StepKind::kRun, 0}, {StepKind::kDrop, 1}, {StepKind::kRun, 0},
                      {StepKind::kRun, 1}, {StepKind::kRun, 2},  {StepKind::kRun, 3},
                      {StepKind::kRun, 4}};
    ASSERT_EQ(scheduler::validate(graph.graph, schedule).value_or(""), "");
    const auto plan = makePlan(trace, graph, schedule);
    ASSERT_EQ(plan->waits.size(), 1u);
    EXPECT_EQ(plan->waits[0].ops, std::string(name) == "second" ? 1 : 2);
    EXPECT_EQ(plan->waits[0].before, 0);
  }
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
TEST(Plan, DropsOfWhatALateReplayReadsComeAfterIt) {
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
  EXPECT_EQ(makePlan(trace, graph, schedule)->predicted.replays_ahead, 1);
  schedule.steps.insert(schedule.steps.begin() + 5, {StepKind::kDrop, 0});  // x, after op 2
  ASSERT_EQ(scheduler::validate(graph.graph, schedule).value_or(""), "");
  const auto plan = makePlan(trace, graph, schedule);
  EXPECT_EQ(plan->waits[0].prelude, (std::vector<Step>{{StepKind::kRun, 0}}));
  EXPECT_TRUE(plan->ops.drops_after[1].empty());
  EXPECT_EQ(plan->events[0].prelude, (std::vector<Step>{{StepKind::kDrop, 0}}));
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

// As if a program had been recorded that runs these ops: each wait is a receive, each input of an
// event a saved tensor.
struct Recorded {
  scheduler::Trace trace;
  scheduler::TraceGraph step;
};

Recorded recordedAs(const scheduler::Graph& graph) {
  using Kind = scheduler::TraceEvent::Kind;
  Recorded recorded;
  auto& [trace, step] = recorded;
  for (const scheduler::Op& op : graph.ops) {
    OpId trace_op = scheduler::kNone;
    if (op.waits) {
      trace.events.push_back({Kind::kMessage, static_cast<std::int32_t>(trace.messages.size()), 0});
      trace.messages.push_back({true, 1, 50, 0});
    } else if (op.backward) {
      trace.events.push_back({Kind::kBackwardNode, 0, 0});
      for (const ValueId value : op.inputs) {
        trace.events.push_back({Kind::kUnpack, static_cast<UseId>(trace.use_value.size()), 0});
        trace.use_value.push_back(value);
        step.events_of_use.push_back({static_cast<OpId>(step.trace_op_of.size())});
      }
    } else {
      trace_op = static_cast<OpId>(trace.ops.size());
      trace.events.insert(trace.events.end(),
                          {{Kind::kOpBegin, trace_op, 0}, {Kind::kOpEnd, trace_op, 0}});
      trace.ops.push_back({.name = op.name,
                           .rerunnable = op.rerunnable,
                           .inputs = op.inputs,
                           .outputs = op.outputs});
    }
    step.trace_op_of.push_back(trace_op);
    step.restores.emplace_back();
  }
  for (const scheduler::Value& value : graph.values) {
    const bool made = value.producer != scheduler::kNone;
    trace.values.push_back({.producer = made ? step.trace_op_of[value.producer] : scheduler::kNone,
                            .previous_epoch = value.previous_epoch});
  }
  step.graph = graph;
  return recorded;
}

// A gradient is asked for early, then another microbatch's forward op reads v1: the replay of op 1
// may go ahead of the wait, the drop of v1 that came after it may not. It comes after a replay that
// is late, too.
TEST(Plan, IsMadeWhereADropStaysBehindAReplayThatGoesAhead) {
  scheduler::Graph graph;
  const ValueId x = scheduler::addGraphInput(graph, 0, true);
  const ValueId v1 = scheduler::addForward(graph, {x}, 10, 1);   // op 0
  const ValueId v2 = scheduler::addForward(graph, {v1}, 10, 1);  // op 1
  scheduler::addWait(graph);                                     // op 2
  scheduler::addForward(graph, {v1}, 10, 1);                     // op 3
  scheduler::addEvent(graph, {v2});                              // op 4
  const scheduler::Schedule schedule{{{StepKind::kRun, 0},
                                      {StepKind::kRun, 1},
                                      {StepKind::kDrop, v2},
                                      {StepKind::kRun, 2},
                                      {StepKind::kRun, 3},
                                      {StepKind::kRun, 1},
                                      {StepKind::kDrop, v1},
                                      {StepKind::kRun, 4}}};
  ASSERT_EQ(scheduler::validate(graph, schedule).value_or(""), "");
  const auto ahead = scheduler::advanceReplays(graph, schedule, 1 << 20);
  ASSERT_EQ(ahead.moved, 1);
  const Recorded recorded = recordedAs(graph);
  const auto plan = makePlan(recorded.trace, recorded.step, ahead.schedule);
  ASSERT_EQ(plan->waits.size(), 1u);
  EXPECT_EQ(plan->waits[0].prelude, (std::vector<Step>{{StepKind::kRun, 1}}));
  EXPECT_TRUE(plan->ops.drops_after[2].empty());
  EXPECT_EQ(plan->events[0].prelude, (std::vector<Step>{{StepKind::kDrop, v1}}));
}

// Whatever goes ahead, of planners' schedules of random steps with waits.
TEST(Plan, IsMadeOfEveryScheduleWithReplaysAhead) {
  std::int64_t ahead = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const scheduler::Graph graph = scheduler::withWaits(
        scheduler::RandomGraph(seed, 2 + seed % 12, 1 + static_cast<int>(seed % 4)).take(), seed);
    const Recorded recorded = recordedAs(graph);
    const auto plain = scheduler::simulate(graph, scheduler::keepEverything(graph)).peak_bytes;
    const auto least = scheduler::peakLowerBound(graph);
    for (const char* name : {"greedy", "dtr"}) {
      scheduler::PlannerOptions options;
      if (std::string(name) == "greedy") options.named["work"] = "2000";
      const auto budget = least + (plain - least) * static_cast<scheduler::Bytes>(seed % 5) / 5;
      const auto planned = scheduler::planner(name).plan(graph, budget, options).schedule;
      for (const auto cap : {budget, plain, 2 * plain}) {
        SCOPED_TRACE(testing::Message() << name << ", seed " << seed << ", cap " << cap);
        std::shared_ptr<Plan> plan;
        const auto advanced = scheduler::advanceReplays(graph, planned, cap);
        ASSERT_NO_THROW(plan = makePlan(recorded.trace, recorded.step, advanced.schedule));
        EXPECT_EQ(plan->predicted.replays_ahead, advanced.moved);
        ahead += plan->predicted.replays_ahead;
      }
    }
  }
  EXPECT_GT(ahead, 1000);
}

// Little search of planners that search. What a solver needs is not known: its time is limited, and
// nothing depends on what it finds.
scheduler::PlannerOptions quick(const scheduler::PlannerInfo& info) {
  scheduler::PlannerOptions options;
  for (const scheduler::PlannerOption& option : info.options) {
    if (option.name == "work") options.named["work"] = "1000";
    if (option.name == "ortools") {
      options.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    }
  }
  return options;
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
      try {
        const auto budget = plain.peak_bytes - graph.activation_bytes / 2;
        const auto schedule = planner->plan(graph.graph, budget, quick(planner->info())).schedule;
        ASSERT_EQ(scheduler::validate(graph.graph, schedule).value_or(""), "");
        std::shared_ptr<Plan> plan;
        ASSERT_NO_THROW(plan = makePlan(trace, graph, schedule));
        replays += plan->predicted.replays > 0 ? 1 : 0;
      } catch (const std::invalid_argument& missing) {
        EXPECT_NE(std::string(missing.what()).find("no solver"), std::string::npos);
      }
    }
  }
  EXPECT_GE(replays, 20);  // of two graphs and some fifteen planners that need no solver
}

}  // namespace
}  // namespace ebbtide::plugin
