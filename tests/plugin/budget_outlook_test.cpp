#include "runtime/budget/budget_outlook.hpp"

#include <chrono>
#include <fstream>
#include <iterator>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "judged_run.hpp"

namespace ebbtide::plugin {
namespace {

scheduler::Trace recorded(const char* name) {
  std::ifstream file(std::string(EBBTIDE_TEST_DATA) + "/" + name + ".json");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return scheduler::traceFromJson(text);
}

std::int64_t plainPeak(const scheduler::TraceGraph& graph) {
  return scheduler::simulate(graph.graph, scheduler::keepEverything(graph.graph)).peak_bytes;
}

// A run of the recorded GPT step: 172 MiB without a plan, which a plan brings down to 68.
class BudgetOutlookTest : public test::JudgedRunTest {
 protected:
  // Searches end by work and not by time, so that plans are the same on any machine.
  static Config byWork() {
    Config config;
    config.planning.work = 1'000'000;
    config.planning.time = std::chrono::hours(24);
    return config;
  }
  BudgetOutlookTest() : JudgedRunTest(byWork()) { steps_ = kStepsForOutlook; }
  void SetUp() override { verdict().noteBaseSettled(guard_.hold()); }

  // The step's need is known before, as in a run.
  void foresee(const scheduler::Trace& trace) {
    const scheduler::TraceGraph graph = scheduler::buildGraph(trace);
    verdict().noteFloor(trace, graph, /*alone=*/true, number());
    outlook_.foresee(trace, graph);
  }
  int number() { return budget_.number(guard_.hold()); }
  BudgetVerdict& verdict() { return budget_.verdict(); }
  // Of a run that took what the step does, as far as it is told at its end.
  RunSummary told() {
    RunSummary run{.plain_peak_bytes = plainPeak(graph_),
                   .activation_bytes = graph_.activation_bytes};
    const Held held = guard_.hold();
    outlook_.addTo(held, run);
    return run;
  }
  std::int64_t halfBytes() {
    return verdict().told().halfBytes(plainPeak(graph_), graph_.activation_bytes);
  }
  // As many bytes as need that smallest budget more.
  void needMore(std::int64_t bytes) {
    const scheduler::SpillingFloor floor = scheduler::spillingFloor(graph_.graph);
    const Held held = guard_.hold();
    verdict().noteNeed(held, {.trace = trace_,
                              .graph = graph_,
                              .floor = floor,
                              .bytes = verdict().floorBytes() + bytes,
                              .alone = true,
                              .base_bytes = trace_.base_bytes});
  }

  const scheduler::Trace trace_ = recorded("gpt_step");
  const scheduler::TraceGraph graph_ = scheduler::buildGraph(trace_);
  std::atomic<bool> ends_{false};
  BudgetController budget_{run()};
  BudgetOutlook outlook_{budget_, ends_, [](const std::string&) {}};
};

TEST_F(BudgetOutlookTest, TwoBudgetsAreForeseen) {
  foresee(trace_);
  const RunSummary run = told();
  EXPECT_EQ(run.half.budget_bytes, halfBytes());
  EXPECT_FALSE(run.half.spills);
  ASSERT_TRUE(run.half.overhead_ratio.has_value());
  EXPECT_GT(*run.half.overhead_ratio, 0);  // what is given up is computed again
  EXPECT_EQ(run.smallest.budget_bytes, verdict().told().smallestBytes());
  EXPECT_EQ(run.smallest.needed_bytes, verdict().floorBytes());
  EXPECT_NE(run.smallest.spills, run.smallest.overhead_ratio.has_value());
  EXPECT_LT(run.smallest.budget_bytes, run.half.budget_bytes);
}

// The peak is 100 MiB, and 40 MiB are saved: half leaves 80, and a MiB is kept free. Nobody has
// told what steps need at least.
TEST_F(BudgetOutlookTest, OfARunOfTwoStepsHalfIsToldWithoutAPlan) {
  steps_ = kStepsForOutlook - 1;
  outlook_.foresee(trace_, graph_);
  RunSummary run{.plain_peak_bytes = 100 * kMib, .activation_bytes = 40 * kMib};
  outlook_.addTo(guard_.hold(), run);
  EXPECT_EQ(run.half.budget_bytes, 81 * kMib);
  EXPECT_FALSE(run.half.overhead_ratio.has_value());
  EXPECT_EQ(run.smallest.budget_bytes, 0);
  EXPECT_FALSE(run.smallest.spills);
}

// It has half of the blocks' bytes.
TEST_F(BudgetOutlookTest, TheProgramThatTakesMostIsForeseen) {
  scheduler::Trace shorter = trace_;
  for (auto& block : shorter.blocks) block.bytes /= 2;
  foresee(shorter);
  const RunSummary of_shorter = told();
  foresee(trace_);
  const RunSummary of_longer = told();
  EXPECT_GT(of_longer.half.budget_bytes, of_shorter.half.budget_bytes);
  foresee(shorter);
  EXPECT_EQ(told().half.budget_bytes, of_longer.half.budget_bytes);
  EXPECT_EQ(told().half.overhead_ratio, of_longer.half.overhead_ratio);
}

TEST_F(BudgetOutlookTest, WhatTheEndCutsOffIsNotTold) {
  ends_ = true;
  foresee(trace_);
  const RunSummary run = told();
  EXPECT_EQ(run.half.budget_bytes, halfBytes());
  EXPECT_FALSE(run.half.overhead_ratio.has_value());
  EXPECT_FALSE(run.half.spills);
  EXPECT_EQ(run.smallest.budget_bytes, verdict().told().smallestBytes());
}

// A step since then needs 16 MiB more: what that budget costs is not known.
TEST_F(BudgetOutlookTest, OfALargerNeedTheBudgetAloneIsKnown) {
  foresee(trace_);
  const std::int64_t before = told().smallest.budget_bytes;
  needMore(16 * kMib);
  const RunSummary run = told();
  EXPECT_EQ(run.smallest.budget_bytes, verdict().told().smallestBytes());
  EXPECT_GE(run.smallest.budget_bytes, before + 16 * kMib);
  EXPECT_FALSE(run.smallest.overhead_ratio.has_value());
  EXPECT_FALSE(run.smallest.spills);
  EXPECT_EQ(run.smallest.needed_bytes, 0);
}

// Judged with 100 MiB, then two steps begin with 110. The plans cost as much as before.
TEST_F(BudgetOutlookTest, WhatLivesLongerByNowIsAddedToBoth) {
  foresee(trace_);
  const RunSummary before = told();
  {
    const Held held = guard_.hold();
    ToldGrowth& grown = verdict().grown();
    grown.settle(held, 4, 100 * kMib, 100 * kMib);
    for (const std::int64_t step : {5, 6}) grown.note(held, step, 110 * kMib);
    grown.update(held);
  }
  const RunSummary after = told();
  EXPECT_EQ(after.half.budget_bytes, before.half.budget_bytes + 10 * kMib);
  EXPECT_EQ(after.half.overhead_ratio, before.half.overhead_ratio);
  EXPECT_GE(after.smallest.budget_bytes, before.smallest.budget_bytes + 10 * kMib);
  EXPECT_EQ(after.smallest.overhead_ratio, before.smallest.overhead_ratio);
  EXPECT_EQ(after.smallest.spills, before.smallest.spills);
}

}  // namespace
}  // namespace ebbtide::plugin
