// A session that is paused between what was asked of it and the plan: it is still asked for when it
// goes on.
#include "first_planned_session.hpp"

namespace ebbtide::plugin {
namespace {

using test::HeldSearch;
using test::kMib;
using test::slowPlan;

// Without first plans: each search is the planning thread's own.
class SessionPauseTest : public test::FirstPlannedSession {
 protected:
  SessionPauseTest() { config_.planning.planner = "greedy"; }

  // At once, and in force with the next step.
  void pause(bool paused) {
    ASSERT_EQ(post("/v1/pause", {{"paused", paused}, {"force", true}}).status, 200);
  }
  // Whose first step has ended, and has a plan.
  void planned() {
    begin(small());
    step();
    search_.awaitBegun(1);
    search_.letGo(slowPlan);
    EXPECT_NE(awaitOther(nullptr), nullptr);
    awaitPlanning();
  }

  const scheduler::Trace other_ = otherProgram();
};

// The planning thread searches for a budget that is asked for, so that the step which is to be
// planned anew still waits when the run is paused.
TEST_F(SessionPauseTest, APlanThatWasAskedForBeforeItIsMadeAfterIt) {
  planned();
  step();
  step();  // of whose figures the plan is now
  search_.awaitBegun(2);
  search_.letGo(slowPlan);
  awaitPlanning();
  const auto plan = inForce();
  auto answer = ask("POST", "/v1/budget", {{"budget", small() - 4 * kMib}});
  search_.awaitBegun(3);
  ASSERT_EQ(post("/v1/replan").status, 202);
  EXPECT_EQ(step(), plan);  // it is recorded, and waits
  pause(true);
  EXPECT_EQ(step(), nullptr);
  search_.letGo(HeldSearch::everything);
  EXPECT_EQ(answer.get().status, 409);
  awaitPlanning();
  EXPECT_EQ(search_.begun(), 3);
  pause(false);
  EXPECT_EQ(step(), plan);
  search_.awaitBegun(4);
}

// Nothing was in force for that program: what was found is for a run that drops nothing.
TEST_F(SessionPauseTest, ASearchThatWasUnderWayIsBegunAgainAfterIt) {
  planned();
  step(other_);
  search_.awaitBegun(2);
  pause(true);
  EXPECT_EQ(step(), nullptr);
  search_.letGo(slowPlan);
  awaitPlanning();
  pause(false);
  step(other_);
  search_.awaitBegun(3);
  search_.letGo(slowPlan);
  awaitPlanning();
  EXPECT_NE(inForce(other_), nullptr);
  for (int i = 0; i < 3; ++i) step(other_);
  awaitPlanning();
  EXPECT_EQ(search_.begun(), 3);
}

// The run goes on before the search has ended: the budget is the one that was searched for, but
// another number.
TEST_F(SessionPauseTest, OneThatEndsBeforeTheSearchDoesIsNoOther) {
  planned();
  step(other_);
  search_.awaitBegun(2);
  pause(true);
  EXPECT_EQ(step(), nullptr);
  pause(false);
  step();
  search_.letGo(slowPlan);
  awaitPlanning();
  EXPECT_EQ(inForce(other_), nullptr);
  step(other_);
  search_.awaitBegun(3);
  search_.letGo(slowPlan);
  awaitPlanning();
  EXPECT_NE(inForce(other_), nullptr);
}

}  // namespace
}  // namespace ebbtide::plugin
