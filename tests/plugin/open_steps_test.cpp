#include "runtime/steps/open_steps.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

TEST(OpenSteps, AllTellUnderTheFirstBudget) {
  OpenSteps steps;
  const auto one = steps.begin();
  const auto other = steps.begin();
  EXPECT_TRUE(steps.tells(one));
  EXPECT_FALSE(steps.end(one));
  EXPECT_TRUE(steps.tells(other));
}

TEST(OpenSteps, WhereNoneIsOpenTheNextOneTells) {
  OpenSteps steps;
  steps.end(steps.begin());
  steps.changeBudget();
  EXPECT_TRUE(steps.settled());
  EXPECT_TRUE(steps.tells(steps.begin()));
}

// The steps of the header: A ends, the budget changes, B (older) ends beside C, D and E are new.
TEST(OpenSteps, WhatRanBesideAnOlderStepDoesNotTell) {
  OpenSteps steps;
  const auto a = steps.begin();
  const auto b = steps.begin();
  steps.end(a);
  steps.changeBudget();
  const auto c = steps.begin();
  EXPECT_FALSE(steps.settled());
  EXPECT_FALSE(steps.end(b));
  const auto d = steps.begin();
  EXPECT_FALSE(steps.tells(d));  // C may have gone over for B's sake
  EXPECT_TRUE(steps.end(c));
  EXPECT_FALSE(steps.tells(c));
  EXPECT_TRUE(steps.tells(d));
  EXPECT_FALSE(steps.end(d));  // told once
  EXPECT_TRUE(steps.tells(steps.begin()));
}

TEST(OpenSteps, WithoutNeighboursTheLastOlderOneSettlesIt) {
  OpenSteps steps;
  const auto older = steps.begin();
  steps.changeBudget();
  steps.end(steps.begin());
  EXPECT_FALSE(steps.settled());
  EXPECT_TRUE(steps.end(older));
  EXPECT_TRUE(steps.settled());
}

TEST(OpenSteps, AnotherChangeBeginsAnew) {
  OpenSteps steps;
  const auto first = steps.begin();
  steps.changeBudget();
  const auto second = steps.begin();
  steps.changeBudget();
  EXPECT_FALSE(steps.end(first));
  EXPECT_TRUE(steps.end(second));
}

// A thread that has one open and does nothing more: 32 others end, then it counts as resting.
TEST(OpenSteps, AStepThatRestsIsNotAwaitedForEver) {
  OpenSteps steps;
  const auto resting = steps.begin();
  steps.changeBudget();
  for (int i = 1; i < OpenSteps::kMostEnds; ++i) ASSERT_FALSE(steps.end(steps.begin())) << i;
  EXPECT_TRUE(steps.end(steps.begin()));
  EXPECT_TRUE(steps.tells(steps.begin()));
  EXPECT_FALSE(steps.end(resting));
}

}  // namespace
}  // namespace ebbtide::plugin
