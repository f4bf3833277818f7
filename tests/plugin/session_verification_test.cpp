// What a session makes of verification steps: plans that are trusted after them, and plans that go.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "controlled_session.hpp"

namespace ebbtide::plugin {
namespace {

using test::kMib;

class SessionVerificationTest : public test::ControlledSession {
 protected:
  SessionVerificationTest() {  // to reject one op is to reject no other
    for (std::size_t op = 0; op < trace_.ops.size(); ++op) trace_.ops[op].signature = op + 1;
  }
  // A plan in force that no step has verified. It replays: the budget lacks half of what is saved.
  std::shared_ptr<const Plan> planned() {
    begin();
    session_->trainOn(session_->trained().memory(), session_->trained().spills(),
                      [this](const std::string& size) {
                        if (while_locked_) while_locked_();
                        session_->trained().memory().setBudget(size.empty() ? allocator::kUnlimited
                                                                            : std::stoll(size));
                      });
    for (int i = 0; i < 3; ++i) step();
    return askForPlan();
  }
  std::shared_ptr<const Plan> askForPlan() {
    EXPECT_EQ(post("/v1/budget", {{"budget", plain_bytes_ - saved_bytes_ / 2 + 8 * kMib}}).status,
              200);
    const auto plan = step();
    EXPECT_NE(plan, nullptr);
    return plan;
  }
  // Of the planning thread, which the steps ask.
  std::shared_ptr<const Plan> awaitPlan() {
    std::shared_ptr<const Plan> plan;
    EXPECT_TRUE(comesTrue([&] { return (plan = step()) != nullptr; }));
    return plan;
  }
  static std::size_t firstReplayOf(const Plan& plan) {
    std::size_t op = 0;
    while (op + 1 < plan.ops.replayed.size() && !plan.ops.replayed[op]) ++op;
    EXPECT_TRUE(plan.ops.replayed[op]);
    return op;
  }
  void reject(const Plan& plan, std::size_t op) {
    session_->replayTrust().reject(plan.ops.replayed_name[op], plan.ops.signatures[op],
                                   "it differs");
  }

  std::function<void()> while_locked_;  // called with the session's lock held, as a budget is set
};

TEST_F(SessionVerificationTest, AWholeOneMakesItsPlanTrusted) {
  const auto plan = planned();
  ASSERT_NE(plan, nullptr);
  EXPECT_FALSE(plan->trusted);
  session_->verifications().verified(*plan, true);
  EXPECT_TRUE(plan->trusted);
  EXPECT_EQ(session_->replayTrust().verificationSteps(), 1);
  EXPECT_EQ(step(), plan);
  // Of the same steps the same one is made: all that it replays was compared.
  const auto again = askForPlan();
  EXPECT_NE(again, plan);
  EXPECT_TRUE(again->trusted);
}

// The third in a row of steps whose backward pass ends early: they are planned for as they are.
TEST_F(SessionVerificationTest, ThreePartialOnesMakeAnotherPlan) {
  const auto plan = planned();
  ASSERT_NE(plan, nullptr);
  for (int i = 0; i < 2; ++i) {
    session_->verifications().verified(*plan, false);
    EXPECT_FALSE(plan->trusted);
    EXPECT_EQ(step(), plan);
  }
  session_->verifications().verified(*plan, false);
  EXPECT_FALSE(plan->trusted);
  EXPECT_EQ(session_->replayTrust().verificationSteps(), 3);
  EXPECT_EQ(step(), nullptr);
  const auto next = awaitPlan();
  EXPECT_NE(next, plan);
  EXPECT_FALSE(next->trusted);  // nothing has been compared whole
}

// Steps have held it by then; one that goes over it takes it back all the same.
TEST_F(SessionVerificationTest, KeepsWithinABudgetThatWasAskedFor) {
  ASSERT_NE(planned(), nullptr);
  for (int i = 0; i < 5; ++i) step();
  EXPECT_TRUE(session_->budgets().verdict().decided(session_->guard().hold()));
  EXPECT_TRUE(session_->verifications().keepsWithinBudget());
}

TEST_F(SessionVerificationTest, APlanThatReplaysARejectedOpGoes) {
  const auto plan = planned();
  ASSERT_NE(plan, nullptr);
  const std::size_t op = firstReplayOf(*plan);
  reject(*plan, op);
  EXPECT_EQ(step(), nullptr);
  session_->verifications().verified(*plan, true);  // another thread's step, which began on it
  EXPECT_FALSE(plan->trusted);
  const auto next = awaitPlan();
  EXPECT_FALSE(next->ops.replayed[op]);
  EXPECT_FALSE(session_->replayTrust().rejects(*next));
  EXPECT_FALSE(next->trusted);
}

// The op is rejected while the session's lock is held, so that its plan is still in force when a
// step of another thread that verified it ends. Who has just let go of the lock takes it again
// before a thread that sleeps for it does.
TEST_F(SessionVerificationTest, WhatWasRejectedMeanwhileIsNotTrusted) {
  const auto plan = planned();
  ASSERT_NE(plan, nullptr);
  ASSERT_EQ(post("/v1/pause", {{"paused", true}}).status, 200);
  step();
  ASSERT_EQ(post("/v1/pause", {{"paused", false}}).status, 200);
  std::jthread other;
  while_locked_ = [&] {
    other = std::jthread([&] { reject(*plan, firstReplayOf(*plan)); });
    while (!session_->replayTrust().rejects(*plan)) std::this_thread::yield();
  };
  const StepStart start = session_->beginStep();
  session_->verifications().verified(*plan, true);
  EXPECT_FALSE(plan->trusted);
  ASSERT_TRUE(other.joinable());
  other.join();
  EXPECT_FALSE(plan->trusted);
  end(start);
}

// A child may run a graph of its parent backward, whatever another thread asked at its birth.
int statusOfChildrenThatAsk() {
  Config config;
  config.log_level = "off";
  Session::start(config, "", &SessionControl::makeFor);
  ReplayTrust& trust = Session::current()->replayTrust();
  trust.reject("aten::sub", 5, "it differs");
  const std::jthread other([&trust](const std::stop_token& stop) {
    while (!stop.stop_requested()) trust.noteCompared("aten::mul", 1, true);
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      ::_exit(trust.hasRejected("aten::sub") ? 0 : 1);
    }
    int status = -1;
    if (::waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}

// In a process of its own: what is done at a fork stays registered.
TEST(SessionVerificationDeathTest, AForkedChildCanAskWhatIsTrusted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::_Exit(statusOfChildrenThatAsk()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ebbtide::plugin
