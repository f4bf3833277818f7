#include "runtime/programs/plan_improvement.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

// What its replays add to the recorded step, as a share of it.
class Costs {
 public:
  explicit Costs(double share, bool feasible = true) {
    plan_.predicted.overhead_ratio = share;
    plan_.feasible = feasible;
  }
  operator const Plan&() const { return plan_; }

 private:
  Plan plan_;
};

// A verification step takes 0.6 of a step more, at a hundredth each step made up for after 60.
TEST(PlanImprovement, HasToPayForItsVerification) {
  EXPECT_TRUE(PlanImprovement::pays(Costs(0.125), Costs(0.0625), false));      // 6 % of a step
  EXPECT_FALSE(PlanImprovement::pays(Costs(0.125), Costs(0.1171875), false));  // 0.8 %
  EXPECT_FALSE(PlanImprovement::pays(Costs(0.125), Costs(0.125), false));
  EXPECT_FALSE(PlanImprovement::pays(Costs(0.0625), Costs(0.125), false));
}

TEST(PlanImprovement, PaysForLessWhereItNeedsNoVerification) {
  EXPECT_TRUE(PlanImprovement::pays(Costs(0.125), Costs(0.1171875), true));
  EXPECT_FALSE(PlanImprovement::pays(Costs(0.125), Costs(0.1240234375), true));  // 0.1 %
  EXPECT_FALSE(PlanImprovement::pays(Costs(0.125), Costs(0.125), true));
  EXPECT_FALSE(PlanImprovement::pays(Costs(0.0625), Costs(0.125), true));
}

// Whatever it costs: the other one spills.
TEST(PlanImprovement, OneThatFitsIsBetterThanOneThatDoesNot) {
  EXPECT_TRUE(PlanImprovement::pays(Costs(0, false), Costs(0.5), false));
  EXPECT_FALSE(PlanImprovement::pays(Costs(0.5), Costs(0, false), true));
}

}  // namespace
}  // namespace ebbtide::plugin
