#include "runtime/programs/first_plan.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

TEST(FirstPlan, IsThatPlanAndKnowsHowItWasMadeButForTheGraph) {
  const auto plan = std::make_shared<const Plan>(), other = std::make_shared<const Plan>();
  Planned made;
  made.result.peak_bytes = 7;
  made.step.graph.ops.resize(3);
  const FirstPlan first(plan, made);
  EXPECT_TRUE(first.any());
  EXPECT_TRUE(first.is(plan));
  EXPECT_FALSE(first.is(other));
  EXPECT_EQ(first.made().result.peak_bytes, 7);
  EXPECT_TRUE(first.made().step.graph.ops.empty());
}

TEST(FirstPlan, IsNoneAtFirst) {
  EXPECT_FALSE(FirstPlan().any());
  EXPECT_FALSE(FirstPlan().is(nullptr));
}

}  // namespace
}  // namespace ebbtide::plugin
