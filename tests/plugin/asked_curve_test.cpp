#include "control/asked_curve.hpp"

#include "controlled_session.hpp"

namespace ebbtide::plugin {
namespace {

using test::kMib;

// The test's own thread plans for it.
class AskedCurveTest : public test::ControlledSession {
 protected:
  using Shown = AskedCurve::Shown;

  AskedCurveTest() {
    config_.planning.work = 100'000;  // nothing here depends on how good a plan is
    begin();
  }

  // A run in which this step was recorded.
  static RunView runOf(const scheduler::Trace& trace, int budget_number = 0) {
    RunView run;
    run.steps.largest.trace = std::make_shared<const scheduler::Trace>(trace);
    run.budget.number = budget_number;
    return run;
  }
  RunView run() const { return runOf(trace_); }

  Shown show(const RunView& run) {
    const auto held = session_->guard().hold();
    return curve_->show(held, run);
  }
  bool isWanted() {
    const auto held = session_->guard().hold();
    return curve_->isWanted(held);
  }
  void forget() {
    const auto held = session_->guard().hold();
    curve_->forget(held);
  }
  // How many pieces it took.
  std::size_t compute() {
    std::size_t pieces = 0;
    for (; isWanted() && pieces < 100; ++pieces) curve_->addPoint();
    return pieces;
  }
  void SetUp() override {
    needs_.emplace(session_->budgets(), session_->replayTrust());
    curve_.emplace(*session_, *needs_);
  }

  std::optional<ProgramNeeds> needs_;
  std::optional<AskedCurve> curve_;
};

TEST_F(AskedCurveTest, IsComputedOnceSomebodyAsks) {
  EXPECT_FALSE(isWanted());
  curve_->addPoint();  // of nothing
  const Shown first = show(run());
  EXPECT_EQ(first.state, "computing");
  EXPECT_TRUE(first.wakes);
  EXPECT_TRUE(first.points.empty());
  EXPECT_TRUE(isWanted());
  EXPECT_FALSE(show(run()).wakes);  // it is under way
}

TEST_F(AskedCurveTest, IsShownAsFarAsItIsComputed) {
  show(run());
  curve_->addPoint();  // of the plain peak, which needs no plan
  const Shown part = show(run());
  EXPECT_EQ(part.state, "computing");
  ASSERT_EQ(part.points.size(), 1U);
  EXPECT_EQ(part.points[0].overhead_ratio, 0);
  EXPECT_EQ(compute(), BudgetCurve::kPoints - 1);
  const Shown whole = show(run());
  EXPECT_EQ(whole.state, "ready");
  EXPECT_GE(whole.points.size(), part.points.size());
  EXPECT_FALSE(whole.wakes);
  // No step has ended yet: as long as the one that was recorded.
  EXPECT_DOUBLE_EQ(whole.plain_seconds, static_cast<double>(trace_.duration_ns) * 1e-9);
}

TEST_F(AskedCurveTest, AnotherProgramWaitsUntilTheWholeOneHasBeenShown) {
  const RunView other = runOf(shorter(2));
  show(run());
  curve_->addPoint();
  EXPECT_FALSE(show(other).wakes);
  EXPECT_EQ(compute(), BudgetCurve::kPoints - 1);
  const Shown whole = show(other);
  EXPECT_EQ(whole.state, "ready");
  EXPECT_FALSE(whole.wakes);
  const Shown next = show(other);
  EXPECT_EQ(next.state, "computing");
  EXPECT_TRUE(next.wakes);
  EXPECT_TRUE(next.points.empty());
  EXPECT_EQ(compute(), BudgetCurve::kPoints);
}

// What is in no plan may be other bytes under it.
TEST_F(AskedCurveTest, AnotherBudgetBeginsItAnewAtOnce) {
  show(run());
  curve_->addPoint();
  const Shown anew = show(runOf(trace_, 1));
  EXPECT_EQ(anew.state, "computing");
  EXPECT_TRUE(anew.wakes);
  EXPECT_TRUE(anew.points.empty());
  EXPECT_EQ(compute(), BudgetCurve::kPoints);
}

TEST_F(AskedCurveTest, WhatIsForgottenIsComputedAnew) {
  show(run());
  compute();
  ASSERT_EQ(show(run()).state, "ready");
  forget();
  EXPECT_FALSE(isWanted());
  const Shown anew = show(run());
  EXPECT_TRUE(anew.wakes);
  EXPECT_EQ(compute(), BudgetCurve::kPoints);
}

TEST_F(AskedCurveTest, OfARunThatEndsNoneIsBegun) {
  RunView ended = run();
  ended.process.ended = true;
  const Shown shown = show(ended);
  EXPECT_EQ(shown.state, "none");
  EXPECT_FALSE(shown.wakes);
  EXPECT_FALSE(isWanted());
}

// Its step contradicts itself: no graph is made of it. Another one's is.
TEST_F(AskedCurveTest, WhatCannotBeComputedIsToldWithTheReason) {
  scheduler::Trace broken = trace_;
  broken.ops[0].inputs = {-2};
  show(runOf(broken));
  EXPECT_EQ(compute(), 1U);
  const Shown none = show(runOf(broken));
  EXPECT_EQ(none.state, "none");
  EXPECT_EQ(none.why.rfind("no curve: ", 0), 0U) << none.why;
  EXPECT_FALSE(none.wakes);
  scheduler::Trace other = trace_;
  ++other.signature;
  const Shown next = show(runOf(other));
  EXPECT_TRUE(next.wakes);
  EXPECT_EQ(next.why, "");
}

// As whoever asks for one is refused below it: a step that was recorded needs three quarters of
// what it takes without a plan.
TEST_F(AskedCurveTest, NoPointIsBelowTheSmallestBudget) {
  step();
  const scheduler::TraceGraph graph = scheduler::buildGraph(trace_);
  {
    const auto held = session_->guard().hold();
    session_->budgets().verdict().noteNeed(held, {.trace = trace_,
                                                  .graph = graph,
                                                  .floor = scheduler::spillingFloor(graph.graph),
                                                  .bytes = plain_bytes_ / 4 * 3,
                                                  .alone = true,
                                                  .base_bytes = trace_.base_bytes});
    session_->budgets().verdict().noteBaseSettled(held);
  }
  const std::int64_t smallest = session_->budgets().verdict().told().smallestBytes();
  ASSERT_GE(smallest, plain_bytes_ / 4 * 3);
  show(run());
  compute();
  const Shown whole = show(run());
  ASSERT_GE(whole.points.size(), 2U);
  for (const BudgetCurve::Point& point : whole.points) EXPECT_GE(point.budget_bytes, smallest);
  // 3 % and a MiB more than three quarters is less than the whole.
  EXPECT_GT(whole.points.back().budget_bytes, smallest + kMib);
}

}  // namespace
}  // namespace ebbtide::plugin
