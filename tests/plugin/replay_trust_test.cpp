#include "verify/replay_trust.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ebbtide::plugin {
namespace {

using Counts = ReplayTrust::Counts;
using Lines = std::vector<std::string>;
using SecondReplay = ReplayTrust::SecondReplay;

std::shared_ptr<Plan> planThatReplays(const std::string& op, std::uint64_t signature) {
  const auto plan = std::make_shared<Plan>();
  plan->ops.signatures = {signature};
  plan->ops.replayed = {true};
  plan->ops.replayed_name = {op};
  return plan;
}

class ReplayTrustTest : public testing::Test {
 protected:
  double metric(const std::string& series) const {
    const std::string text = metrics_.render();
    const std::size_t line = text.find("\n" + series + "{");
    if (line == std::string::npos) return -1;
    return std::stod(text.substr(text.find(' ', line + 1)));
  }

  metrics::RankMetrics metrics_{{0, 0}};
  int plannings_ = 0;
  Lines warnings_, debug_;
  ReplayTrust trust_{metrics_,
                     {.plan_without_rejected = [this] { ++plannings_; },
                      .warn = [this](const std::string& text) { warnings_.push_back(text); },
                      .debug = [this](const std::string& text) { debug_.push_back(text); }}};
};

TEST_F(ReplayTrustTest, EqualReplaysAreCountedAndChangeNoPlan) {
  trust_.noteCompared("aten::mul", 4, true);
  trust_.noteCompared("aten::mul", 5, true);
  EXPECT_EQ(trust_.equalReplays(), (Counts{{"aten::mul", 2}}));
  EXPECT_TRUE(trust_.rejectedReplays().empty());
  EXPECT_FALSE(trust_.hasRejected("aten::mul"));
  EXPECT_DOUBLE_EQ(metric("ebbtide_audits_total"), 2);
  EXPECT_EQ(plannings_, 0);
}

TEST_F(ReplayTrustTest, OneThatDiffersIsRejectedAndSaidOnce) {
  for (int step = 0; step < 2; ++step)
    trust_.noteCompared("aten::sub", 5, false, SecondReplay::kDiffers);
  EXPECT_TRUE(trust_.hasRejected("aten::sub"));
  EXPECT_TRUE(trust_.rejects(*planThatReplays("aten::sub", 5)));
  EXPECT_FALSE(trust_.rejects(*planThatReplays("aten::sub", 6)));
  EXPECT_EQ(trust_.rejectedReplays(), (Counts{{"aten::sub", 2}}));
  EXPECT_DOUBLE_EQ(metric("ebbtide_audit_failures_total"), 1);  // ops, not replays
  EXPECT_EQ(warnings_, (Lines{"the results of aten::sub are kept, not computed again: it does not "
                              "repeat bit for bit"}));
  EXPECT_EQ(plannings_, 2);  // a plan may have come with it in between
}

// Two replays that agree with each other do not differ from the original by the op's own doing.
TEST_F(ReplayTrustTest, ALineSaysNoMoreThanTheReplaysTell) {
  trust_.noteCompared("aten::ones", 1, false, SecondReplay::kAgrees);
  trust_.noteCompared("aten::linalg_lstsq", 2, false, SecondReplay::kDiffers);
  trust_.noteCompared("aten::relu_", 3, false);
  const std::string kept = " are kept, not computed again: ";
  EXPECT_EQ(warnings_,
            (Lines{"the results of aten::ones" + kept +
                       "something that Ebbtide did not see wrote into what it gave, or "
                       "into what it reads",
                   "the results of aten::linalg_lstsq" + kept + "it does not repeat bit for bit",
                   "the results of aten::relu_" + kept + "it gave other results"}));
}

TEST_F(ReplayTrustTest, SeveralAtOnceAreOneLineAndOnePlanning) {
  trust_.reject({{"aten::mm", 1}, {"aten::mm", 2}, {"aten::add", 3}, {"aten::sub", 4}}, "gone");
  EXPECT_EQ(warnings_, (Lines{"the results of aten::mm, aten::add and aten::sub are kept, not "
                              "computed again: gone"}));
  EXPECT_EQ(plannings_, 1);
  EXPECT_DOUBLE_EQ(metric("ebbtide_audit_failures_total"), 4);
  trust_.reject(std::vector<ReplayTrust::Replay>{}, "nothing");
  EXPECT_EQ(plannings_, 1);
}

// Eight in a line, aten::0 to aten::7: the two that it has no room for are named in a later one.
TEST_F(ReplayTrustTest, WhatALineHasNoRoomForIsNamedLater) {
  std::vector<ReplayTrust::Replay> ten;
  for (std::uint64_t op = 0; op < 10; ++op) ten.push_back({"aten::" + std::to_string(op), op});
  ten.push_back({"aten::9", 10});
  trust_.reject(ten, "gone");
  trust_.reject("aten::7", 7, "gone");
  trust_.reject({{"aten::9", 9}, {"aten::8", 8}}, "gone");
  EXPECT_EQ(warnings_,
            (Lines{"the results of aten::0, aten::1, aten::2, aten::3, aten::4, aten::5, aten::6, "
                   "aten::7 and 2 other operations are kept, not computed again: gone",
                   "the results of aten::9 and aten::8 are kept, not computed again: gone"}));
}

TEST_F(ReplayTrustTest, ANameIsDistrustedOnce) {
  EXPECT_FALSE(trust_.distrusts("aten::linalg_lstsq"));
  for (int step = 0; step < 2; ++step) trust_.distrust("aten::linalg_lstsq");
  EXPECT_TRUE(trust_.distrusts("aten::linalg_lstsq"));
  EXPECT_TRUE(trust_.rejects(*planThatReplays("aten::linalg_lstsq", 9)));
  EXPECT_FALSE(trust_.hasRejected("aten::linalg_lstsq"));  // none of its replays differed
  EXPECT_EQ(debug_, (Lines{"no call of aten::linalg_lstsq is run again: it does not repeat"}));
  EXPECT_EQ(plannings_, 1);
}

TEST_F(ReplayTrustTest, WhatLeavesBytesUnwrittenMayRunAgain) {
  trust_.noteUnwritten("aten::mse_loss");
  EXPECT_TRUE(trust_.leavesUnwritten("aten::mse_loss"));
  EXPECT_FALSE(trust_.leavesUnwritten("aten::mul"));
  EXPECT_FALSE(trust_.rejects(*planThatReplays("aten::mse_loss", 1)));
  EXPECT_EQ(plannings_, 0);
}

TEST_F(ReplayTrustTest, RejectedOpsAreKeptInTheNextPlan) {
  trust_.reject("aten::sub", 5, "it gave other results");
  trust_.distrust("aten::linalg_lstsq");
  scheduler::Trace trace;
  for (const auto& [name, signature] : std::vector<std::pair<std::string, std::uint64_t>>{
           {"aten::sub", 4}, {"aten::sub", 5}, {"aten::linalg_lstsq", 6}}) {
    scheduler::TraceOp op;
    op.name = name;
    op.signature = signature;
    op.rerunnable = true;
    trace.ops.push_back(op);
  }
  trust_.keepRejected(trace);
  EXPECT_TRUE(trace.ops[0].rerunnable);
  for (const std::size_t kept : {1, 2}) {
    EXPECT_FALSE(trace.ops[kept].rerunnable) << kept;
    EXPECT_EQ(trace.ops[kept].kept_because, "gave other results when it was run again");
  }
}

TEST_F(ReplayTrustTest, VerificationsAreCounted) {
  trust_.noteVerificationStep();
  trust_.noteVerificationStep();
  EXPECT_EQ(trust_.verificationSteps(), 2);
  EXPECT_DOUBLE_EQ(metric("ebbtide_rehearsed_steps_total"), 2);
}

// As a session does: it asks under the lock by which it publishes plans, and takes that lock when
// it is called. Whichever comes first, no plan stays that replays what was rejected.
TEST(ReplayTrust, NoPlanThatReplaysARejectedOpStays) {
  metrics::RankMetrics metrics({0, 0});
  constexpr std::uint64_t kOps = 2000;
  std::mutex plans_mutex;
  std::vector<std::shared_ptr<const Plan>> plans, published(kOps);
  for (std::uint64_t op = 0; op < kOps; ++op) plans.push_back(planThatReplays("aten::sub", op));
  std::uint64_t rejected = 0;  // the other thread's
  ReplayTrust trust(metrics, {.plan_without_rejected =
                                  [&] {
                                    const std::lock_guard lock(plans_mutex);
                                    auto& plan = published[rejected++];
                                    if (plan && trust.rejects(*plan)) plan = nullptr;
                                  },
                              .warn = [](const std::string&) {},
                              .debug = [](const std::string&) {}});
  std::thread planner([&] {
    for (std::uint64_t op = 0; op < kOps; ++op) {
      const std::lock_guard lock(plans_mutex);
      if (!trust.rejects(*plans[op])) published[op] = plans[op];
    }
  });
  std::thread verification([&] {
    for (std::uint64_t op = 0; op < kOps; ++op) trust.reject("aten::sub", op, "it differs");
  });
  planner.join();
  verification.join();
  for (std::uint64_t op = 0; op < kOps; ++op) EXPECT_EQ(published[op], nullptr) << op;
}

// Has a plan in force, as a session does.
class PlanOwner {
 public:
  explicit PlanOwner(std::shared_ptr<Plan> plan) : plan_(std::move(plan)) {}
  void planWithoutRejected(const ReplayTrust& trust) {
    const std::lock_guard lock(mutex_);
    if (plan_ != nullptr && trust.rejects(*plan_)) plan_ = nullptr;
  }
  void verified(const ReplayTrust& trust, Plan& plan) {  // each replay of it, as it seems
    const std::lock_guard lock(mutex_);
    if (plan_.get() == &plan && !trust.rejects(plan)) plan.trusted = true;
  }
  bool hasPlan() const { return plan_ != nullptr; }

 private:
  std::mutex mutex_;
  std::shared_ptr<Plan> plan_;
};

// A line waits for whoever reads it. Meanwhile a step of another thread, which compared the plan's
// replays before, ends.
TEST(ReplayTrust, ThePlanGoesBeforeALineIsSaid) {
  metrics::RankMetrics metrics({0, 0});
  const auto plan = planThatReplays("aten::sub", 5);
  PlanOwner owner(plan);
  std::unique_ptr<ReplayTrust> trust;
  const auto end_other_step = [&](const std::string&) {
    EXPECT_FALSE(owner.hasPlan());
    owner.verified(*trust, *plan);
  };
  trust = std::make_unique<ReplayTrust>(
      metrics,
      ReplayTrust::Owner{.plan_without_rejected = [&] { owner.planWithoutRejected(*trust); },
                         .warn = end_other_step,
                         .debug = end_other_step});
  owner.verified(*trust, *plan);
  EXPECT_TRUE(plan->trusted);
  plan->trusted = false;
  trust->reject("aten::sub", 5, "it differs");
  EXPECT_FALSE(plan->trusted);
  trust->distrust("aten::sub");
  EXPECT_FALSE(plan->trusted);
}

TEST(ReplayTrust, ALineThatCannotBeSaidLeavesNoPlan) {
  metrics::RankMetrics metrics({0, 0});
  for (const bool named : {false, true}) {
    const auto plan = planThatReplays("aten::sub", 5);
    PlanOwner owner(plan);
    const auto fail = [](const std::string&) { throw std::bad_alloc(); };
    ReplayTrust trust(metrics, {.plan_without_rejected = [&] { owner.planWithoutRejected(trust); },
                                .warn = fail,
                                .debug = fail});
    if (named) {
      EXPECT_THROW(trust.distrust("aten::sub"), std::bad_alloc);
    } else {
      EXPECT_THROW(trust.noteCompared("aten::sub", 5, false), std::bad_alloc);
    }
    EXPECT_FALSE(owner.hasPlan()) << named;
  }
}

}  // namespace
}  // namespace ebbtide::plugin
