#include "runtime/active_plan.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

TEST(ActivePlan, KnowsSinceWhenItsPlanHolds) {
  const auto one = std::make_shared<const Plan>();
  const auto other = std::make_shared<const Plan>();
  ActivePlan active;
  active.noteStep(nullptr, 1);
  EXPECT_EQ(active.fromStep(), -1);
  EXPECT_EQ(active.firstStep(), -1);
  active.noteStep(one, 2);
  active.noteStep(one, 3);
  EXPECT_EQ(active.plan(), one);
  EXPECT_EQ(active.fromStep(), 2);
  const auto figures = std::make_shared<Plan>();  // it does the same
  figures->course = one->course;
  active.noteStep(figures, 3);
  EXPECT_EQ(active.plan(), figures);
  EXPECT_EQ(active.fromStep(), 2);
  active.noteStep(other, 4);
  EXPECT_EQ(active.plan(), other);
  EXPECT_EQ(active.fromStep(), 4);
  active.noteStep(nullptr, 5);
  EXPECT_EQ(active.plan(), nullptr);
  EXPECT_EQ(active.fromStep(), 5);
  EXPECT_EQ(active.firstStep(), 2);
}

}  // namespace
}  // namespace ebbtide::plugin
