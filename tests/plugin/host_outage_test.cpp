#include "runtime/host_outage.hpp"

#include "judged_run.hpp"

namespace ebbtide::plugin {
namespace {

class HostOutageTest : public test::JudgedRunTest {
 protected:
  static Config withBudget() {
    Config config;
    config.budget_bytes = 64 * kMib;
    config.budget_text = std::to_string(64 * kMib);
    return config;
  }
  HostOutageTest() : JudgedRunTest(withBudget()) {}

  static std::shared_ptr<Plan> planOf(std::uint64_t signature, std::int64_t host_fetches) {
    auto plan = std::make_shared<Plan>();
    plan->signature = signature;
    plan->feasible = true;
    plan->host_fetches = host_fetches;
    return plan;
  }
  static StepSummary followed(const std::shared_ptr<const Plan>& plan) {
    StepSummary summary;
    summary.plan = plan;
    summary.trusted = true;
    return summary;
  }
  bool mayGoOver() const { return trained_.memory().overrunLimitBytes() > 0; }

  HostOutage host_{budget_};
  BudgetController budget_{run(host_.state())};
};

TEST_F(HostOutageTest, PlansThatCountOnTheHostGoOnce) {
  const Held held = guard_.hold();
  programs_[1].plan = planOf(1, 3);
  programs_[2].plan = planOf(2, 0);
  host_.take(held);
  EXPECT_NE(programs_[1].plan, nullptr);
  host_.begin();
  host_.begin();
  EXPECT_EQ(warned_.size(), 1U);
  host_.take(held);
  EXPECT_EQ(programs_[1].plan, nullptr);
  EXPECT_NE(programs_[2].plan, nullptr);
  programs_[1].plan = planOf(1, 3);  // publish() sees to those that are made later
  host_.take(held);
  EXPECT_NE(programs_[1].plan, nullptr);
}

TEST_F(HostOutageTest, StepsMayGoOverButUnderAPlanThatHasHeld) {
  const Held held = guard_.hold();
  const auto plan = planOf(1, 0);
  trained_.refuseOverrun();  // the budget has been judged: it can be held
  EXPECT_FALSE(mayGoOver());
  host_.begin();
  EXPECT_TRUE(mayGoOver());
  host_.allowOverrunFor(held, plan.get());
  EXPECT_TRUE(mayGoOver());
  host_.endStep(held, followed(plan), {}, /*violations=*/0);
  host_.allowOverrunFor(held, plan.get());
  EXPECT_FALSE(mayGoOver());
  host_.allowOverrunFor(held, nullptr);
  EXPECT_TRUE(mayGoOver());
}

TEST_F(HostOutageTest, APlanThatWentOverHasNotHeld) {
  const Held held = guard_.hold();
  const auto plan = planOf(1, 0);
  host_.begin();
  allocator::Statistics memory;
  memory.budget_violations = 1;
  host_.endStep(held, followed(plan), memory, /*violations=*/0);
  host_.allowOverrunFor(held, plan.get());
  EXPECT_TRUE(mayGoOver());
}

// By the 64th step in a row none has: the budget is judged as any.
TEST_F(HostOutageTest, NoPlanIsAwaitedForEver) {
  const Held held = guard_.hold();
  host_.begin();
  for (int i = 0; i < SpillOutage::kMostSteps; ++i) {
    EXPECT_TRUE(host_.state().awaitsPlan());
    host_.endStep(held, {}, {}, /*violations=*/0);
  }
  EXPECT_FALSE(host_.state().awaitsPlan());
}

TEST_F(HostOutageTest, UnreadSpillsAreToldOnce) {
  for (int i = 0; i < 2; ++i) host_.warnOfUnread(kMib, "aten::mul");
  EXPECT_TRUE(host_.saidUnread());
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_NE(warned_[0].find("1.0 MiB on the host"), std::string::npos) << warned_[0];
}

}  // namespace
}  // namespace ebbtide::plugin
