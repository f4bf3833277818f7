#include "runtime/budget/outage_course.hpp"

#include "forked_child.hpp"
#include "judged_run.hpp"

namespace ebbtide::plugin {
namespace {

class OutageCourseTest : public test::JudgedRunTest {
 protected:
  static Config withBudget() {
    Config config;
    config.budget.bytes = 64 * kMib;
    config.budget.text = std::to_string(64 * kMib);
    return config;
  }
  OutageCourseTest() : JudgedRunTest(withBudget()) {}

  static std::shared_ptr<Plan> planOf(std::uint64_t signature, std::int64_t host_fetches) {
    auto plan = std::make_shared<Plan>();
    plan->signature = signature;
    plan->feasible = true;
    plan->predicted.host_fetches = host_fetches;
    return plan;
  }
  std::shared_ptr<Plan> tooLarge(std::int64_t peak_bytes) {
    auto plan = planOf(1, 0);
    plan->feasible = false;
    plan->predicted.peak_bytes = peak_bytes;
    programs_[1].in_force.plan = plan;
    return plan;
  }
  static StepSummary followed(const std::shared_ptr<const Plan>& plan) {
    StepSummary summary;
    summary.plan = plan;
    summary.trusted = true;
    return summary;
  }
  void endStep(const Held& held, const StepSummary& summary,
               const allocator::Statistics& memory = {}, bool planning = false) {
    host_.endStep(held, {summary, begun_, memory, planning});
  }
  static allocator::Statistics overBudget() {
    allocator::Statistics memory;
    memory.budget_violations = 1;
    return memory;
  }
  bool mayGoOver() const { return trained_.memory().overrunLimitBytes() > 0; }

  const allocator::Statistics begun_;
  OutageCourse host_{budget_};
  BudgetController budget_{run(host_.state())};
};

TEST_F(OutageCourseTest, PlansThatCountOnTheHostGoOnce) {
  const Held held = guard_.hold();
  programs_[1].in_force.plan = planOf(1, 3);
  programs_[2].in_force.plan = planOf(2, 0);
  host_.take(held);
  EXPECT_NE(programs_[1].in_force.plan, nullptr);
  host_.begin();
  host_.begin();
  EXPECT_EQ(warned_.size(), 1U);
  host_.take(held);
  EXPECT_EQ(programs_[1].in_force.plan, nullptr);
  EXPECT_NE(programs_[2].in_force.plan, nullptr);
  programs_[1].in_force.plan = planOf(1, 3);  // publish() sees to those that are made later
  host_.take(held);
  EXPECT_NE(programs_[1].in_force.plan, nullptr);
}

// The file is its parent's, who writes there as before.
TEST_F(OutageCourseTest, OfAnInertChildItIsNone) {
  EXPECT_TRUE(test::holdsInInertChild([this] {
    host_.begin();
    return !host_.began() && warned_.empty();
  }));
  EXPECT_TRUE(test::holdsInChild([this] {
    host_.begin();
    return host_.began();
  }));
}

TEST_F(OutageCourseTest, StepsMayGoOverButUnderAPlanThatHasHeld) {
  const Held held = guard_.hold();
  const auto plan = planOf(1, 0);
  trained_.refuseOverrun();  // the budget has been judged: it can be held
  EXPECT_FALSE(mayGoOver());
  host_.begin();
  EXPECT_TRUE(mayGoOver());
  host_.allowOverrunFor(held, plan.get());
  EXPECT_TRUE(mayGoOver());
  endStep(held, followed(plan));
  host_.allowOverrunFor(held, plan.get());
  EXPECT_FALSE(mayGoOver());
  host_.allowOverrunFor(held, nullptr);
  EXPECT_TRUE(mayGoOver());
}

TEST_F(OutageCourseTest, APlanThatWentOverHasNotHeld) {
  const Held held = guard_.hold();
  const auto plan = planOf(1, 0);
  host_.begin();
  endStep(held, followed(plan), overBudget());
  host_.allowOverrunFor(held, plan.get());
  EXPECT_TRUE(mayGoOver());
}

// By the 64th step in a row none has: the budget is judged as any.
TEST_F(OutageCourseTest, NoPlanIsAwaitedForEver) {
  const Held held = guard_.hold();
  host_.begin();
  for (int i = 0; i < SpillOutage::kMostSteps; ++i) {
    EXPECT_TRUE(host_.state().awaitsPlan());
    endStep(held, {});
  }
  EXPECT_FALSE(host_.state().awaitsPlan());
}

// Another program's steps hold the budget in between.
TEST_F(OutageCourseTest, StepsThatGoOverAreCountedOverTheWholeOutage) {
  const Held held = guard_.hold();
  const auto plan = planOf(1, 0);
  host_.begin();
  for (int i = 0; i < SpillOutage::kMostSteps; ++i) {
    endStep(held, followed(plan));
    EXPECT_TRUE(host_.state().awaitsPlan());
    endStep(held, {}, overBudget());
  }
  EXPECT_FALSE(host_.state().awaitsPlan());
}

// The budget is 64 MiB, and the best plan takes 80. Steps without it take more: they tell nothing.
TEST_F(OutageCourseTest, WhereNoPlanFitsTheBestOneTellsTheNeed) {
  const Held held = guard_.hold();
  const auto plan = tooLarge(80 * kMib);
  host_.begin();
  StepSummary verified = followed(plan), left = followed(plan);
  verified.trusted = false;
  left.off_plan = true;
  for (const StepSummary& step : {StepSummary{}, verified, left}) {
    endStep(held, step);
    EXPECT_TRUE(host_.state().awaitsPlan());
    EXPECT_EQ(budget_.verdict().floorBytes(), 0);
  }
  endStep(held, followed(plan));
  EXPECT_FALSE(host_.state().awaitsPlan());
  EXPECT_EQ(budget_.verdict().floorBytes(), 80 * kMib);
  EXPECT_TRUE(mayGoOver());  // until the next steps have decided
}

// A run in it makes that plan again, or a better one.
TEST_F(OutageCourseTest, TheBudgetThatIsNamedHoldsThatPlan) {
  const Held held = guard_.hold();
  const auto plan = tooLarge(80 * kMib);
  host_.begin();
  endStep(held, followed(plan));
  budget_.verdict().noteBaseSettled(held);
  const std::int64_t named = budget_.verdict().told().smallestBytes();
  EXPECT_GE(trained_.planningCapBytes(named), 80 * kMib);
}

// The first step's plan goes for a later one's, and one that steps found wanting for the next: that
// would have to be verified, for which there is no room once the budget is judged.
TEST_F(OutageCourseTest, APlanThatIsToGoTellsNoNeed) {
  const Held held = guard_.hold();
  const auto plan = tooLarge(80 * kMib);
  host_.begin();
  Program& known = programs_[1];
  known.planning.from_first_step = true;
  endStep(held, followed(plan));
  EXPECT_TRUE(host_.state().awaitsPlan());
  known.planning.from_first_step = false;
  known.planning.replan = true;
  endStep(held, followed(plan));
  EXPECT_TRUE(host_.state().awaitsPlan());
  known.planning.replan = false;
  endStep(held, followed(plan), {}, /*planning=*/true);
  EXPECT_TRUE(host_.state().awaitsPlan());
  const auto better = tooLarge(70 * kMib);  // published while the step followed the other one
  endStep(held, followed(plan));
  EXPECT_TRUE(host_.state().awaitsPlan());
  endStep(held, followed(better));
  EXPECT_FALSE(host_.state().awaitsPlan());
  EXPECT_EQ(budget_.verdict().floorBytes(), 70 * kMib);
}

TEST_F(OutageCourseTest, UnreadSpillsAreToldOnce) {
  for (int i = 0; i < 2; ++i) host_.warnOfUnread(kMib, "aten::mul");
  EXPECT_TRUE(host_.saidUnread());
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_NE(warned_[0].find("1.0 MiB on the host"), std::string::npos) << warned_[0];
}

}  // namespace
}  // namespace ebbtide::plugin
