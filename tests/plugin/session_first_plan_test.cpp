// A session whose plan is there at once, while a search that the test holds back goes on.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "first_planned_session.hpp"

namespace ebbtide::plugin {
namespace {

using test::failingPlan;
using test::HeldSearch;
using test::kMib;
using test::replayingOnly;
using test::slowPlan;

class SessionFirstPlanTest : public test::FirstPlannedSession {};

// Of the first step's figures: the search begins with the third step's, which has been recorded as
// those between were.
TEST_F(SessionFirstPlanTest, IsInForceAtTheNextStepAndSearchedForOnceTheBaseIsSettled) {
  const auto first = firstOf(small());
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(first->feasible);
  EXPECT_FALSE(first->trusted);
  EXPECT_EQ(step(), first);
  EXPECT_EQ(search_.begun(), 0);
  session_->verifications().verified(*first, true);
  EXPECT_EQ(step(), first);
  search_.awaitBegun(1);
  // The same plan, by this step's figures; what was compared was.
  const auto now = inForce();
  ASSERT_NE(now, nullptr);
  EXPECT_EQ(now->ops.replayed, first->ops.replayed);
  EXPECT_TRUE(now->trusted);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(), now);
  EXPECT_EQ(search_.begun(), 1);
}

TEST_F(SessionFirstPlanTest, StaysWhereTheSearchFindsNoneThatFits) {
  const auto first = searchedFor(small());
  search_.letGo(HeldSearch::everything);  // which is more than the budget
  settle();
  EXPECT_EQ(inForce(), first);
  EXPECT_EQ(step(), first);
}

TEST_F(SessionFirstPlanTest, StaysWhereTheSearchFindsASlowerOne) {
  const auto first = searchedFor(small());
  search_.letGo(slowPlan);
  settle();
  EXPECT_EQ(inForce(), first);
}

// Of a twentieth more than two fifths of the plain peak less is replayed, and all that is was. It
// is trusted as soon as the first plan's replays have been compared, whichever of both did so.
TEST_F(SessionFirstPlanTest, GivesWayToOneThatReplaysLessAndNeedsNoVerification) {
  firstOf(twoFifths());
  const auto first = verifiedInStepsTwoAndThree();
  search_.letGo(replayingOnly(firstsOps(*first), plain_bytes_ / 20));
  const auto better = awaitOther(first);
  ASSERT_NE(better, nullptr);
  EXPECT_TRUE(better->trusted);
  EXPECT_EQ(step(), better);
}

// None of the first plan's replays has been compared so far; then they are, by a step that began
// with it: all that the better plan replays is among them.
TEST_F(SessionFirstPlanTest, GivesWayToOneThatHasToBeVerified) {
  const auto first = searchedFor(twoFifths());
  search_.letGo(replayingOnly(firstsOps(*first), plain_bytes_ / 20));
  const auto better = awaitOther(first);
  ASSERT_NE(better, nullptr);
  EXPECT_FALSE(better->trusted);
  session_->verifications().verified(*first, true);
  EXPECT_TRUE(better->trusted);
}

// The same, of a step of 1,000 s: no other plan is worth it.
TEST_F(SessionFirstPlanTest, StaysWhereTheSearchGainsLittle) {
  trace_.duration_ns = 1'000'000'000'000;
  firstOf(twoFifths());
  const auto first = verifiedInStepsTwoAndThree();
  search_.letGo(replayingOnly(firstsOps(*first), plain_bytes_ / 20));
  settle();
  EXPECT_EQ(inForce(), first);
}

// Replays take more than 0.6 of a step of 0.1 s: it waits less without them.
TEST_F(SessionFirstPlanTest, IsNoneWhereItMakesAStepMuchLonger) {
  trace_.duration_ns = 100'000'000;
  begin(twoFifths());
  step();
  search_.awaitBegun(1);
  EXPECT_EQ(inForce(), nullptr);
}

// The search that was under way finds nothing better; what was asked for is done after it.
TEST_F(SessionFirstPlanTest, IsPlannedAgainWhereThatWasAskedForMeanwhile) {
  searchedFor(small());
  ASSERT_EQ(post("/v1/replan").status, 202);
  for (int i = 0; i < 3; ++i) step();  // that would have been recorded for it
  StepSummary next;
  next.plan = inForce();
  EXPECT_FALSE(session_->course().wantsTrace(next));
  search_.letGo(HeldSearch::everything);
  settle();
  EXPECT_TRUE(session_->course().wantsTrace(next));
  step();
  search_.awaitBegun(2);
}

// The optimizer's state is there by the third step: a first plan of that step, and one search.
TEST_F(SessionFirstPlanTest, IsFoundAgainOnceTheBaseHasGrown) {
  const auto first = firstOf(small());
  trace_.base_bytes += 4 * kMib;
  EXPECT_EQ(step(), first);
  StepStart start = session_->beginStep();
  follow(start);  // which takes none of the bytes that were foreseen: the plan was wrong
  search_.awaitBegun(1);
  const auto second = inForce();
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  EXPECT_LE(second->predicted.peak_bytes, small());
  search_.letGo(HeldSearch::everything);
  settle();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(), second);
  settle();
  EXPECT_EQ(search_.begun(), 1);
}

// It was found wanting while the search went on, which replaces it: that one is not planned again.
TEST_F(SessionFirstPlanTest, ThatWasFoundWantingGoesAndIsNotSearchedForTwice) {
  const auto first = searchedFor(small());
  StepStart start = session_->beginStep();
  follow(start);
  search_.letGo(slowPlan);
  const auto other = awaitOther(first);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(), other);
  settle();
  EXPECT_EQ(search_.begun(), 1);
}

TEST_F(SessionFirstPlanTest, ThatCouldNotBeVerifiedIsNotFoundAgain) {
  const auto first = firstOf(small());
  step();
  session_->verifications().failed(*first, "memory is short");
  EXPECT_EQ(inForce(), nullptr);
  step();
  search_.awaitBegun(1);
  EXPECT_EQ(inForce(), nullptr);
}

// As many that a search finds are verified as where there is no first plan.
TEST_F(SessionFirstPlanTest, ThatCouldNotBeVerifiedTakesNoTurnOfASearch) {
  const auto first = firstOf(small());
  step();
  session_->verifications().failed(*first, "memory is short");
  for (int search = 1; search <= 1 + Program::kMostReplans; ++search) {
    step();
    search_.awaitBegun(search);
    search_.letGo(slowPlan);
    const auto found = awaitOther(nullptr);
    ASSERT_NE(found, nullptr) << search;
    settle();
    session_->verifications().failed(*found, "memory is short");
  }
  step();
  settle();
  EXPECT_EQ(search_.begun(), 1 + Program::kMostReplans);
}

// As long as steps may go over the budget to find out what the program needs.
TEST_F(SessionFirstPlanTest, MayNotGoOverTheBudgetToBeVerified) {
  EXPECT_TRUE(begin(small()).verifications().keepsWithinBudget());
  session_->shutdown();
  EXPECT_FALSE(begin().verifications().keepsWithinBudget());
  session_->shutdown();
  config_.planning.on_infeasible = OnInfeasible::kBestEffort;  // nothing is judged
  EXPECT_FALSE(begin(small()).verifications().keepsWithinBudget());
}

TEST_F(SessionFirstPlanTest, StaysWhereTheSearchFails) {
  config_.log_level = "info";
  const auto first = searchedFor(small());
  testing::internal::CaptureStderr();
  search_.letGo(failingPlan);
  settle();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(inForce(), first);
  EXPECT_NE(said.find("no better plan could be made"), std::string::npos) << said;
  EXPECT_NE(said.find("the search failed"), std::string::npos) << said;
  EXPECT_EQ(said.find("values are spilled"), std::string::npos) << said;
  EXPECT_NE(said.find("plan by " + first->origin.planner + " in "), std::string::npos) << said;
}

// The figures are the third step's, and what steps do is the same: no other plan took its place.
TEST_F(SessionFirstPlanTest, OfALaterStepIsNoOtherOne) {
  const auto first = firstOf(small());
  const auto course = first->course;
  step();
  step();
  search_.awaitBegun(1);
  const auto now = inForce();
  ASSERT_NE(now, nullptr);
  EXPECT_NE(now, first);
  EXPECT_EQ(now->course, course);
  EXPECT_EQ(session_->outputs().counters.totals().replans, 0);
}

// While one is searched for steps of the other are followed, and not recorded.
TEST_F(SessionFirstPlanTest, OfTwoProgramsOneSearchIsMadeAtATime) {
  const scheduler::Trace other = otherProgram();
  begin(small());
  step();
  awaitOther(nullptr);
  settle();
  step(other);  // no process's first step: it is searched for at once
  search_.awaitBegun(1);
  StepSummary summary;
  summary.plan = inForce();
  summary.trusted = true;
  for (int i = 0; i < 4; ++i) step();  // until no more are to be recorded
  EXPECT_FALSE(session_->course().wantsTrace(summary));
  search_.letGo(HeldSearch::everything);
  settle();
  step();
  search_.awaitBegun(2);
}

// The step that found it ends, and its program gets another plan at once, whatever was searched.
TEST_F(SessionFirstPlanTest, ThatReplaysARejectedOpEndsItsSearch) {
  const auto first = searchedFor(small());
  const auto op = static_cast<std::size_t>(
      std::find(first->ops.replayed.begin(), first->ops.replayed.end(), true) -
      first->ops.replayed.begin());
  ASSERT_LT(op, first->ops.replayed.size());
  session_->replayTrust().reject(first->ops.replayed_name[op], first->ops.signatures[op],
                                 "it differs");
  EXPECT_EQ(inForce(), nullptr);
  settle();
  EXPECT_EQ(search_.cut(), 1);
  EXPECT_EQ(inForce(), nullptr);
  step();
  const auto next = awaitOther(nullptr);
  ASSERT_NE(next, nullptr);
  EXPECT_FALSE(next->ops.replayed[op]);
  search_.awaitBegun(2);  // for a better one, without that op
}

// A pause takes the budget away, and a search for it is for nobody. Once it goes on the plan is in
// force again, and a better one is searched for again: in its place where that pays.
TEST_F(SessionFirstPlanTest, OfARunThatIsPausedEndsItsSearch) {
  const auto first = searchedFor(small());
  // At once: the planning thread, which would ask whether a step fits, searches.
  ASSERT_EQ(post("/v1/pause", {{"paused", true}, {"force", true}}).status, 200);
  EXPECT_EQ(step(), nullptr);
  settle();
  EXPECT_EQ(search_.cut(), 1);
  ASSERT_EQ(post("/v1/pause", {{"paused", false}}).status, 200);
  EXPECT_EQ(step(), first);
  search_.awaitBegun(2);
  const auto now = inForce();
  ASSERT_NE(now, nullptr);
  EXPECT_EQ(now->course, first->course);
  search_.letGo(slowPlan);
  settle();
  EXPECT_EQ(inForce(), now);
}

// Of a smaller one the plan goes, too; its program gets a first plan that fits it.
TEST_F(SessionFirstPlanTest, OfAnotherBudgetEndsItsSearch) {
  const auto first = searchedFor(small());
  {
    const auto held = session_->guard().hold();  // as a rank does that learns its stage
    session_->budgets().ask(held, std::to_string(small() - 4 * kMib));
  }
  // Not recorded: where the search has ended by its end, it would be planned at once.
  end(session_->beginStep(), /*recorded=*/false);
  settle();
  EXPECT_EQ(search_.cut(), 1);
  step();
  const auto other = awaitOther(nullptr);
  ASSERT_NE(other, nullptr);
  EXPECT_NE(other->course, first->course);
  EXPECT_LE(other->predicted.peak_bytes, small() - 4 * kMib);
  search_.awaitBegun(2);
}

// Who asks for a budget gets a plan that was searched for, and waits for no other search.
TEST_F(SessionFirstPlanTest, GivesWayToThePlanOfABudgetThatIsAskedFor) {
  const auto first = searchedFor(small());
  auto answer = ask("POST", "/v1/budget", {{"budget", small() - 4 * kMib}});
  search_.awaitBegun(2);
  EXPECT_EQ(inForce(), first);
  search_.letGo(2, slowPlan);
  EXPECT_EQ(answer.get().status, 200);
  const auto asked = step();
  ASSERT_NE(asked, nullptr);
  EXPECT_NE(asked->course, first->course);
  EXPECT_LE(asked->predicted.peak_bytes, small() - 4 * kMib);
}

// Whoever names a planner gets its plans and no other's.
TEST_F(SessionFirstPlanTest, IsNoneWhereAPlannerIsNamed) {
  config_.planning.planner = "greedy";
  begin(small());
  step();
  search_.awaitBegun(1);
  EXPECT_EQ(inForce(), nullptr);
  EXPECT_EQ(step(), nullptr);
  search_.letGo(slowPlan);
  EXPECT_NE(awaitOther(nullptr), nullptr);
}

// Ranks that exchange messages agree on what they run.
TEST_F(SessionFirstPlanTest, IsNoneInAGroupOfRanks) {
  trace_.group_size = 2;
  trace_.group_rank = 0;
  begin(small());
  step();
  search_.awaitBegun(1);
  EXPECT_EQ(inForce(), nullptr);
}

// The run is over before a better one was searched: it is said that there was a plan.
TEST_F(SessionFirstPlanTest, OfAShortRunIsSaidAtItsEnd) {
  config_.log_level = "info";
  testing::internal::CaptureStderr();
  const auto first = firstOf(small());
  EXPECT_EQ(step(), first);
  const std::string before = testing::internal::GetCapturedStderr();
  EXPECT_EQ(before.find("plan by "), std::string::npos) << before;
  testing::internal::CaptureStderr();
  session_->shutdown();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("plan by " + first->origin.planner + " in "), std::string::npos) << said;
}

}  // namespace
}  // namespace ebbtide::plugin
