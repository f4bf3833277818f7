#include "runtime/budget/told_growth.hpp"

#include "judged_run.hpp"
#include "runtime/budget/told_budgets.hpp"

namespace ebbtide::plugin {
namespace {

class ToldGrowthTest : public test::JudgedRunTest {
 protected:
  // Judged with 100 MiB; then two steps begin with 110, so that it is no single large batch.
  void growByTen(const Held& held) {
    grown_.settle(held, 4, 100 * kMib, 100 * kMib);
    for (const std::int64_t step : {5, 6}) grown_.note(held, step, 110 * kMib);
    grown_.update(held);
  }

  const JudgedRun run_ = run();
  BudgetFloor floor_;
  ToldGrowth grown_{run_, floor_};
  ToldBudgets told_{trained_, floor_, grown_};
};

TEST_F(ToldGrowthTest, CountsWhatCameSinceAStepBegan) {
  const Held held = guard_.hold();
  growByTen(held);
  EXPECT_EQ(grown_.since(held, 0), 10 * kMib);
  EXPECT_EQ(grown_.since(held, 104 * kMib), 6 * kMib);
  EXPECT_EQ(grown_.since(held, 120 * kMib), 0);
}

// 200 MiB were needed by a step that began with 104: 206 are by now, and 3 % more are told: 6.18 in
// whole MiB.
TEST_F(ToldGrowthTest, IsAddedToTheBudgetThatIsTold) {
  const Held held = guard_.hold();
  floor_.noteNeed(200 * kMib, /*alone=*/true, 104 * kMib);
  floor_.noteBaseSettled();
  growByTen(held);
  EXPECT_EQ(grown_.bytes(), 6 * kMib);
  EXPECT_EQ(told_.smallestBytes(), 213 * kMib);
}

TEST_F(ToldGrowthTest, IsDueOnce) {
  const Held held = guard_.hold();
  growByTen(held);
  ASSERT_TRUE(grown_.isDue(held));
  const auto found = grown_.takeDue(held);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->grownBytes(), 10 * kMib);
  EXPECT_FALSE(grown_.takeDue(held).has_value());
  grown_.keepDue(held, true);  // the step that was recorded told nothing of it
  EXPECT_TRUE(grown_.takeDue(held).has_value());
}

TEST_F(ToldGrowthTest, IsNothingOnceItIsForgotten) {
  const Held held = guard_.hold();
  growByTen(held);
  grown_.forget(held);
  grown_.update(held);
  EXPECT_EQ(grown_.bytes(), 0);
  EXPECT_EQ(grown_.sinceJudgedBytes(), 0);
}

}  // namespace
}  // namespace ebbtide::plugin
