#include "runtime/budget_refusal.hpp"

#include "judged_budget.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::uint64_t kFirstOp = 7, kOtherOp = 8;

class BudgetRefusalTest : public test::JudgedBudgetTest {
 protected:
  explicit BudgetRefusalTest(Config config = {}) : JudgedBudgetTest(std::move(config)) {
    trace_.ops.resize(1);
    trace_.ops[0].signature = kFirstOp;
    trained_.setBudget(std::to_string(8 * kMib));
  }

  // By the error that the program gets.
  std::string refuse(const Held& held, std::int64_t base_bytes) {
    refusal_.noteNeedsMost(held, trace_);
    refusal_.refuse(held, base_bytes);
    return refusal_.raise(held);
  }

  scheduler::Trace trace_;
};

TEST_F(BudgetRefusalTest, TheSameStepIsRefusedAgain) {
  const Held held = guard_.hold();
  refuse(held, 10 * kMib);
  EXPECT_TRUE(refusal_.requested());
  EXPECT_FALSE(refusal_.goesOn(held, kFirstOp, 10 * kMib));
  EXPECT_TRUE(refusal_.requested());
}

TEST_F(BudgetRefusalTest, TheErrorHasItsWords) {
  const Held held = guard_.hold();
  EXPECT_FALSE(refusal_.stop(held).raised());
  const std::string error = refuse(held, 10 * kMib);
  EXPECT_NE(error, "");
  EXPECT_EQ(error, refusal_.stop(held).message());
  EXPECT_TRUE(refusal_.stop(held).raised());
}

TEST_F(BudgetRefusalTest, AnotherProgramGoesOn) {
  const Held held = guard_.hold();
  refuse(held, 10 * kMib);
  EXPECT_TRUE(refusal_.goesOn(held, kOtherOp, 10 * kMib));
  EXPECT_FALSE(refusal_.requested());
}

// Of a smaller batch 9 MiB live when the step begins, not 10. Refused again, it goes on with less
// than 9 alone.
TEST_F(BudgetRefusalTest, EachSmallerBatchGoesOnOnce) {
  const Held held = guard_.hold();
  refuse(held, 10 * kMib);
  EXPECT_TRUE(refusal_.goesOn(held, kFirstOp, 9 * kMib));
  refuse(held, 9 * kMib);
  EXPECT_FALSE(refusal_.goesOn(held, kFirstOp, 9 * kMib));
  EXPECT_TRUE(refusal_.goesOn(held, kFirstOp, 8 * kMib));
}

TEST_F(BudgetRefusalTest, WhoHasNotMetItDoesNotGoOn) {
  const Held held = guard_.hold();
  refusal_.noteNeedsMost(held, trace_);
  refusal_.refuse(held, 10 * kMib);
  EXPECT_FALSE(refusal_.goesOn(held, kOtherOp, 0));
}

TEST_F(BudgetRefusalTest, ARankOfAPipelineWaitsForAdvice) {
  const Held held = guard_.hold();
  may_be_advised_ = true;
  trace_.group_size = 2;
  refusal_.noteDecides(held, trace_);
  refusal_.refuse(held, 10 * kMib);
  EXPECT_FALSE(refusal_.requested());
  EXPECT_TRUE(refusal_.stop(held).awaits());
}

// Nobody would answer.
TEST_F(BudgetRefusalTest, ARankWithoutAStoreIsStoppedAtOnce) {
  const Held held = guard_.hold();
  trace_.group_size = 2;
  refusal_.noteDecides(held, trace_);
  refusal_.refuse(held, 10 * kMib);
  EXPECT_TRUE(refusal_.requested());
}

class BudgetBestEffortTest : public BudgetRefusalTest {
 protected:
  static Config bestEffort() {
    Config config;
    config.on_infeasible = OnInfeasible::kBestEffort;
    return config;
  }
  BudgetBestEffortTest() : BudgetRefusalTest(bestEffort()) {}
};

TEST_F(BudgetBestEffortTest, IsToldOnceAndGoesOn) {
  const Held held = guard_.hold();
  for (int i = 0; i < 2; ++i) refusal_.refuse(held, 10 * kMib);
  EXPECT_FALSE(refusal_.requested());
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_NE(warned_[0].find("the budget of 8.0 MiB is too small for this program"),
            std::string::npos)
      << warned_[0];
  EXPECT_TRUE(warned_[0].ends_with("MiB")) << warned_[0];  // what is to be typed is last
}

}  // namespace
}  // namespace ebbtide::plugin
