// A session that searches for a better plan than the one in force, beside what else it plans.
#include <string>
#include <utility>

#include "first_planned_session.hpp"

namespace ebbtide::plugin {
namespace {

using test::HeldSearch;
using test::slowPlan;

class SessionPolishingTest : public test::FirstPlannedSession {};

// A better one than that is searched for when the search under way has ended, of a step that is
// recorded then.
TEST_F(SessionPolishingTest, AnotherProgramsFirstPlanWaitsForNoSearch) {
  const scheduler::Trace other = otherProgram();
  const auto first = searchedFor(small());
  step(other);
  awaitPlanning();
  const auto others = inForce(other);
  ASSERT_NE(others, nullptr);
  EXPECT_TRUE(others->feasible);
  EXPECT_EQ(inForce(), first);
  EXPECT_EQ(search_.begun(), 1);
  StepSummary summary;
  summary.plan = others;
  for (int i = 0; i < 4; ++i) step();  // until no more are to be recorded
  EXPECT_FALSE(session_->course().wantsTrace(summary));
  search_.letGo(HeldSearch::everything);
  settle();
  for (int i = 0; i < 3; ++i) step();
  EXPECT_TRUE(session_->course().wantsTrace(summary));
  step(other);
  search_.awaitBegun(2);
  search_.letGo(HeldSearch::everything);
  settle();
  EXPECT_EQ(inForce(other)->course, others->course);
  for (int i = 0; i < 3; ++i) step(other);
  settle();
  EXPECT_EQ(search_.begun(), 2);
}

// It takes none of the bytes that were foreseen: so it is recorded, and has a plan by that step's
// figures, while the first program is still searched for. A better one than that waits.
TEST_F(SessionPolishingTest, AnotherProgramsPlanThatIsFoundWantingWaitsForNoSearch) {
  const scheduler::Trace other = otherProgram();
  const auto first = searchedFor(small());
  step(other);
  awaitPlanning();
  const auto others = inForce(other);
  ASSERT_NE(others, nullptr);
  for (int i = 0; i < 4; ++i) step();  // until no more are to be recorded
  StepSummary next;
  next.plan = others;
  EXPECT_FALSE(session_->course().wantsTrace(next));
  const StepStart start = session_->beginStep();
  session_->course().releaseLog(start.log);
  StepSummary summary;
  summary.opened = start.opened;
  summary.had_backward = summary.observed = summary.trusted = true;
  summary.plan = others;
  session_->endStep(std::move(summary));
  EXPECT_TRUE(session_->course().wantsTrace(next));
  step(other);
  awaitPlanning();
  EXPECT_NE(inForce(other), nullptr);
  EXPECT_NE(inForce(other), others);
  EXPECT_EQ(inForce(), first);
  EXPECT_EQ(search_.begun(), 1);
  EXPECT_EQ(search_.cut(), 0);
}

// Of the other program's step, a millisecond long, no plan is worth it that is found at once. The
// planning thread itself searches, and what it finds is in force while the other search goes on.
TEST_F(SessionPolishingTest, WhatHasNoFirstPlanIsSearchedForBesideIt) {
  scheduler::Trace other = otherProgram();
  other.duration_ns = 1'000'000;
  const auto first = searchedFor(small());
  step(other);
  search_.awaitBegun(2);
  EXPECT_EQ(inForce(other), nullptr);
  search_.letGo(2, slowPlan);
  awaitPlanning();
  EXPECT_NE(inForce(other), nullptr);
  EXPECT_EQ(inForce(), first);
  const auto held = session_->guard().hold();
  EXPECT_TRUE(session_->plans().polishes(held));
}

// It is made once.
TEST_F(SessionPolishingTest, WhereTheFirstPlanFailsWhatIsFoundTakesItsPlace) {
  const auto first = searchedFor(small());
  session_->verifications().failed(*first, "memory is short");
  EXPECT_EQ(inForce(), nullptr);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(), nullptr);
  awaitPlanning();
  EXPECT_EQ(search_.begun(), 1);
  search_.letGo(slowPlan);
  const auto found = awaitOther(nullptr);
  ASSERT_NE(found, nullptr);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(), found);
  settle();
  EXPECT_EQ(search_.begun(), 1);
}

// The search is cut after 2 s, four times as long as it may take. The planning thread makes a plan.
TEST_F(SessionPolishingTest, WhereTheFirstPlanFailsTheSearchIsNotWaitedForForEver) {
  config_.planning.time = std::chrono::milliseconds(500);  // the first plan takes what it takes
  const auto first = searchedFor(small());
  session_->verifications().failed(*first, "memory is short");
  EXPECT_EQ(step(), nullptr);
  search_.awaitCut(1);
  EXPECT_EQ(step(), nullptr);
  search_.awaitBegun(2);
  search_.letGo(2, slowPlan);
  EXPECT_NE(awaitOther(nullptr), nullptr);
  for (int i = 0; i < 3; ++i) step();
  settle();
  EXPECT_EQ(search_.begun(), 2);
}

// What it would have found may write to the disk. The first plan, which writes nothing, stays.
TEST_F(SessionPolishingTest, WhereNothingCanBeWrittenTheSearchIsBegunAgain) {
  config_.files.spill_dir = "/no/such/folder";
  const auto first = searchedFor(small());
  const std::string value(SpillTarget::kLeastBytes, 'x');
  EXPECT_FALSE(session_->trained().spills().write(value.data(), SpillTarget::kLeastBytes,
                                                  SpillTarget::Afterwards::kFreed));
  session_->outage().begin();
  // Not recorded: where the search has ended by its end, it would be planned at once.
  end(session_->beginStep(), /*recorded=*/false);
  search_.awaitCut(1);
  settle();
  EXPECT_EQ(inForce(), first);
  step();
  search_.awaitBegun(2);
  EXPECT_EQ(inForce(), first);
}

// By a pause: nobody has what it would have found.
TEST_F(SessionPolishingTest, WhereTheFirstPlanFailsAndTheSearchIsCutItIsBegunAgain) {
  const auto first = searchedFor(small());
  session_->verifications().failed(*first, "memory is short");
  ASSERT_EQ(post("/v1/pause", {{"paused", true}, {"force", true}}).status, 200);
  step();
  settle();
  EXPECT_EQ(search_.cut(), 1);
  ASSERT_EQ(post("/v1/pause", {{"paused", false}}).status, 200);
  EXPECT_EQ(step(), nullptr);
  search_.awaitBegun(2);
  search_.letGo(slowPlan);
  EXPECT_NE(awaitOther(nullptr), nullptr);
}

}  // namespace
}  // namespace ebbtide::plugin
