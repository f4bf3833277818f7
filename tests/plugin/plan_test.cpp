#include "plan.hpp"

#include <gtest/gtest.h>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;
using scheduler::Step;
using Kind = scheduler::TraceEvent::Kind;
using StepKind = scheduler::Step::Kind;

// Two ops in a row, both outputs saved, the last one read first:
//
//   x (block 0, before the step) ─ op 0 ─► v1 (block 1, 100 B) ─ op 1 ─► v2 (block 2, 100 B)
//   backward: unpack use 1 (v2), release; unpack use 0 (v1), release
scheduler::Trace twoOps() {
  scheduler::Trace trace;
  trace.signature = 42;
  trace.base_bytes = 1000;
  trace.blocks = {{50, true, false}, {100, false, false}, {100, false, false}};
  trace.values = {
      {kNone, 0, kNone, kNone, false}, {0, 1, kNone, kNone, false}, {1, 2, kNone, kNone, false}};
  trace.ops = {{"first", 11, 5, true, {0}, {1}}, {"second", 12, 7, true, {1}, {2}}};
  trace.use_value = {1, 2};
  trace.events = {
      {Kind::kOpBegin, 0, 0},       {Kind::kAlloc, 1, 1},        {Kind::kOpEnd, 0, 2},
      {Kind::kOpBegin, 1, 3},       {Kind::kAlloc, 2, 4},        {Kind::kOpEnd, 1, 5},
      {Kind::kNaturalDeath, 1, 6},  {Kind::kNaturalDeath, 2, 6}, {Kind::kBackwardNode, 0, 7},
      {Kind::kUnpack, 1, 8},        {Kind::kRelease, 1, 9},      {Kind::kFree, 2, 9},
      {Kind::kBackwardNode, 0, 10}, {Kind::kUnpack, 0, 11},      {Kind::kRelease, 0, 12},
      {Kind::kFree, 1, 12}};
  return trace;
}

TEST(TraceGraph, EventsBecomeOpsAndFixedBytesLeaveOutWhatPlansDecide) {
  const auto graph = scheduler::buildGraph(twoOps());
  // Two forward ops and two backward events.
  ASSERT_EQ(graph.graph.ops.size(), 4u);
  EXPECT_EQ(graph.events_of_use, (std::vector<std::vector<OpId>>{{3}, {2}}));
  // x's 50 B are a value of the graph, so 1000 - 50 are fixed.
  EXPECT_EQ(graph.graph.ops[0].fixed_bytes, 950);
  // At the end of forward v1 and v2 live: 100 + 100 over the start.
  EXPECT_EQ(graph.activation_bytes, 200);
  // Nothing dropped: 950 fixed, 50 x, 100 v1, 100 v2.
  EXPECT_EQ(scheduler::simulate(graph.graph, scheduler::keepEverything(graph.graph)).peak_bytes,
            1200);
}

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

TEST(TraceJson, RoundTrips) {
  const auto trace = twoOps();
  const auto again = scheduler::traceFromJson(scheduler::toJson(trace));
  EXPECT_EQ(scheduler::toJson(again), scheduler::toJson(trace));
  EXPECT_EQ(again.events.size(), trace.events.size());
}

TEST(TraceJson, DamageIsNamed) {
  for (
      const char* text :
      {"", "{", "[]", "{}", R"({"format":"other"})",
       R"({"format":"ebbtide-trace-1","signature":1,"base_bytes":0,"duration_ns":0,"ops":[["a",1,1,true,[7],[]]],)"
       R"("values":[],"use_value":[],"blocks":[],"events":[]})"}) {
    EXPECT_THROW(scheduler::traceFromJson(text), std::invalid_argument) << text;
  }
}

}  // namespace
}  // namespace ebbtide::plugin
