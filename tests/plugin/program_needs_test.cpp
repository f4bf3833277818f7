#include "control/program_needs.hpp"

#include "controlled_session.hpp"

namespace ebbtide::plugin {
namespace {

using test::kMib;

// By a session that has trained nothing: what is asked of are steps that were recorded elsewhere.
class ProgramNeedsTest : public test::ControlledSession {
 protected:
  ProgramNeedsTest() { begin(); }

  static RecordedStep recorded(const scheduler::Trace& trace) {
    return {.trace = std::make_shared<const scheduler::Trace>(trace)};
  }
  static std::int64_t floorOf(const scheduler::Trace& trace) {
    return scheduler::spillingFloor(scheduler::buildGraph(trace, {.unread_may_go = true}).graph)
        .bytes;
  }
  std::int64_t unplanned() const { return session_->trained().unplannedBytes(); }
  std::int64_t named(std::int64_t bytes) const {
    return session_->trained().namedBudgetBytes(bytes);
  }
  BudgetVerdict& verdict() { return session_->budgets().verdict(); }
  ProgramNeeds needs() { return {session_->budgets(), session_->replayTrust()}; }
  // The budget was judged with the recorded step's base, and two steps began with so much more.
  void grow(std::int64_t bytes) {
    const auto held = session_->guard().hold();
    ToldGrowth& grown = verdict().grown();
    grown.settle(held, 4, trace_.base_bytes, trace_.base_bytes);
    for (const std::int64_t step : {5, 6}) grown.note(held, step, trace_.base_bytes + bytes);
    grown.update(held);
  }
};

TEST_F(ProgramNeedsTest, WithoutABudgetNothingIsAskedButThePeak) {
  const ProgramChange program = needs().of(recorded(trace_), std::nullopt);
  EXPECT_EQ(program.plain_peak_bytes, plain_bytes_);
  EXPECT_EQ(program.predicted_peak_bytes, plain_bytes_);
  EXPECT_EQ(program.needed_bytes, 0);
  EXPECT_EQ(program.base_bytes, 0);
  EXPECT_EQ(program.plan, nullptr);
  EXPECT_FALSE(program.later);
}

TEST_F(ProgramNeedsTest, OfABudgetItIsTheFloorAndWhatIsInNoPlan) {
  const ProgramChange program = needs().of(recorded(trace_), plain_bytes_);
  EXPECT_EQ(program.needed_bytes, floorOf(trace_) + unplanned());
  EXPECT_EQ(program.base_bytes, trace_.base_bytes);
  EXPECT_LT(program.needed_bytes, program.plain_peak_bytes);
}

// 16.6 MiB live when the step begins, 10 more by now.
TEST_F(ProgramNeedsTest, WhatLivesLongerByNowIsNeededToo) {
  grow(10 * kMib);
  const ProgramChange program = needs().of(recorded(trace_), plain_bytes_);
  EXPECT_EQ(program.needed_bytes, floorOf(trace_) + 10 * kMib + unplanned());
  EXPECT_EQ(program.base_bytes, trace_.base_bytes + 10 * kMib);
  EXPECT_EQ(program.plain_peak_bytes, plain_bytes_);  // of the step as it was recorded
}

// A step that began with as much already has it in its floor.
TEST_F(ProgramNeedsTest, WhatAStepBeganWithIsNotCountedTwice) {
  grow(10 * kMib);
  scheduler::Trace later = trace_;
  later.base_bytes += 10 * kMib;
  const ProgramChange program = needs().of(recorded(later), plain_bytes_);
  EXPECT_EQ(program.needed_bytes, floorOf(later) + unplanned());
  EXPECT_EQ(floorOf(later), floorOf(trace_) + 10 * kMib);
}

TEST_F(ProgramNeedsTest, TheSmallestBudgetIsThatOfTheProgramThatNeedsMost) {
  EXPECT_EQ(needs().smallestBudgetOf({}), 0);  // not known
  verdict().noteBaseSettled(session_->guard().hold());
  std::vector<ProgramChange> programs;
  for (const scheduler::Trace& trace : {shorter(2), trace_, shorter(4)})
    programs.push_back(needs().of(recorded(trace), plain_bytes_));
  EXPECT_EQ(needs().smallestBudgetOf(programs), named(programs[1].needed_bytes));
  EXPECT_EQ(verdict().floorBytes(), programs[1].needed_bytes);  // from here on
  programs.erase(programs.begin() + 1);
  EXPECT_EQ(needs().smallestBudgetOf(programs), named(verdict().floorBytes()));
}

// Nothing was asked of a budget, so nothing is needed at least.
TEST_F(ProgramNeedsTest, AProgramWithoutABudgetChangesNothing) {
  EXPECT_EQ(needs().smallestBudgetOf({needs().of(recorded(trace_), std::nullopt)}), 0);
  EXPECT_EQ(verdict().floorBytes(), 0);
}

// What was measured where the step was recorded may be another host's, or an old figure.
TEST_F(ProgramNeedsTest, PlansAreMadeWithTheHostAsItIsNow) {
  trace_.host = {.bytes_per_second = 1'000'000'000, .least_bytes = 1};
  const scheduler::Trace planning = needs().planningTrace(recorded(trace_));
  EXPECT_EQ(planning.host.bytes_per_second, 0);  // the configuration has no offloading
  EXPECT_EQ(planning.ops.size(), trace_.ops.size());
}

TEST_F(ProgramNeedsTest, WhatIsNotToRunAgainIsKept) {
  std::size_t op = 0;
  while (!trace_.ops[op].rerunnable) ++op;
  for (std::size_t i = 0; i < trace_.ops.size(); ++i) trace_.ops[i].signature = i + 1;
  session_->replayTrust().reject(trace_.ops[op].name, trace_.ops[op].signature, "a test");
  const scheduler::Trace planning = needs().planningTrace(recorded(trace_));
  for (std::size_t i = 0; i < planning.ops.size(); ++i)
    EXPECT_EQ(planning.ops[i].rerunnable, trace_.ops[i].rerunnable && i != op) << i;
}

}  // namespace
}  // namespace ebbtide::plugin
