#include "plan/plan_alignment.hpp"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace ebbtide::plugin {
namespace {

constexpr auto kNone = PlanAlignment::kNone;

TEST(PlanAlignment, IsTheSameWhereTheStepIsThePlans) {
  PlanAlignment alignment;
  alignment.expect(3);
  for (int id = 0; id < 3; ++id) {
    EXPECT_EQ(alignment.next(), id);
    alignment.add(true);
    EXPECT_EQ(alignment.planned(id), id);
    EXPECT_EQ(alignment.step(id), id);
  }
  EXPECT_EQ(alignment.next(), kNone);
  EXPECT_FALSE(alignment.differs());
}

// Of the step's 0 1 2 3 the second is inserted: its 2 and 3 are the plan's 1 and 2.
TEST(PlanAlignment, GoesOnAfterWhatIsInserted) {
  PlanAlignment alignment;
  alignment.expect(3);
  for (const bool planned : {true, false, true, true}) alignment.add(planned);
  EXPECT_EQ(alignment.planned(1), kNone);
  EXPECT_EQ(alignment.planned(2), 1);
  EXPECT_EQ(alignment.step(2), 3);
  EXPECT_TRUE(alignment.differs());
}

TEST(PlanAlignment, HasNoMoreThanThePlan) {
  PlanAlignment alignment;
  alignment.expect(1);
  alignment.add(true);
  alignment.add(true);
  EXPECT_EQ(alignment.planned(1), kNone);
  EXPECT_EQ(alignment.step(1), kNone);
}

TEST(PlanAlignment, KnowsNothingBeyondWhatHasCome) {
  PlanAlignment alignment;
  EXPECT_EQ(alignment.planned(0), kNone);
  alignment.expect(2);
  EXPECT_EQ(alignment.planned(0), kNone);
  EXPECT_EQ(alignment.step(1), kNone);
}

// 0, 1 planned; 2 taken for planned, then not: the plan's 2 is the step's 3.
TEST(PlanAlignment, TakesBackWhatWasTakenForThePlans) {
  PlanAlignment alignment;
  alignment.expect(3);
  for (int id = 0; id < 3; ++id) alignment.add(true);
  alignment.unplanFrom(2);
  EXPECT_EQ(alignment.planned(2), kNone);
  EXPECT_EQ(alignment.next(), 2);
  alignment.add(true);
  EXPECT_EQ(alignment.step(2), 3);
}

TEST(PlanAlignment, ForgetsAnOpThatWasNone) {
  PlanAlignment alignment;
  alignment.expect(2);
  alignment.add(true);
  alignment.add(false);
  alignment.removeLast();
  EXPECT_FALSE(alignment.differs());
  alignment.add(true);
  alignment.removeLast();
  EXPECT_EQ(alignment.next(), 1);
}

TEST(PlanAlignment, AdoptsTheNextOne) {
  PlanAlignment alignment;
  alignment.expect(1);
  alignment.add(false);
  alignment.adopt(0);
  EXPECT_EQ(alignment.planned(0), 0);
  alignment.adopt(0);  // the plan has no more
  EXPECT_EQ(alignment.step(1), kNone);
}

// Whatever is inserted, both directions agree and keep the order: against a list of pairs.
TEST(PlanAlignment, BothDirectionsAgree) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    PlanAlignment alignment;
    alignment.expect(20);
    std::vector<std::pair<int, int>> pairs;  // (step, plan)
    int steps = 0;
    for (int i = 0; i < 60; ++i) {
      const unsigned draw = random() % 8;
      if (draw == 0 && steps > 0) {
        const int first = steps - static_cast<int>(random() % 3);
        alignment.unplanFrom(first);
        std::erase_if(pairs, [first](const auto& pair) { return pair.first >= first; });
        continue;
      }
      const bool planned = draw > 3;
      alignment.add(planned);
      if (planned && pairs.size() < 20) pairs.emplace_back(steps, static_cast<int>(pairs.size()));
      ++steps;
    }
    ASSERT_EQ(alignment.next(), pairs.size() < 20 ? static_cast<int>(pairs.size()) : kNone);
    for (const auto& [step, plan] : pairs) {
      ASSERT_EQ(alignment.planned(step), plan);
      ASSERT_EQ(alignment.step(plan), step);
    }
    int of_plan = 0;
    for (int step = 0; step < steps; ++step) of_plan += alignment.planned(step) != kNone ? 1 : 0;
    ASSERT_EQ(of_plan, static_cast<int>(pairs.size()));
  }
}

}  // namespace
}  // namespace ebbtide::plugin
