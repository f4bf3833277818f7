#include "runtime/budget/measured_budget.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

using scheduler::BudgetForm;

constexpr std::int64_t kMib = 1 << 20;
constexpr scheduler::BudgetFacts kFacts = {.plain_peak_bytes = 412 * kMib,
                                           .activation_bytes = 326 * kMib};

BudgetForm form(const std::string& text) {
  return BudgetForm::parse("EBBTIDE_BUDGET", text);
}

// The step at whose begin the base is settled, of steps that begin with so many MiB.
int settledAt(const std::vector<std::int64_t>& bases) {
  MeasuredBudget measured;
  for (std::size_t i = 0; i < bases.size(); ++i) {
    measured.noteBegin(static_cast<std::int64_t>(i), bases[i] * kMib);
    if (measured.settled()) return static_cast<int>(i) + 1;
  }
  return 0;
}

TEST(MeasuredBudget, ABaseIsSettledWhereTheNextStepBeginsWithTheSame) {
  EXPECT_EQ(settledAt({100, 100}), 2);            // SGD
  EXPECT_EQ(settledAt({100, 300, 300}), 3);       // AdamW: twice the parameters
  EXPECT_EQ(settledAt({100, 400, 403, 410}), 3);  // less than 1 % more
  EXPECT_EQ(settledAt({100, 200, 300, 400}), 4);  // a history that grows: at the latest
  EXPECT_EQ(settledAt({0, 0}), 2);
  EXPECT_EQ(settledAt({100}), 0);
}

// An evaluation begins steps that have no backward pass.
TEST(MeasuredBudget, ForwardPassesAloneSettleNothing) {
  MeasuredBudget measured;
  for (int i = 0; i < 5; ++i) measured.noteBegin(0, 100 * kMib);
  EXPECT_FALSE(measured.settled());
  measured.noteBegin(1, 100 * kMib);
  EXPECT_TRUE(measured.settled());
}

TEST(MeasuredBudget, IsLateOnce) {
  MeasuredBudget measured;
  measured.want(form("-50%"));
  for (std::int64_t steps = 0; steps < MeasuredBudget::kLateSteps; ++steps) {
    measured.noteBegin(steps, 100 * kMib);
    EXPECT_FALSE(measured.isLate());
  }
  measured.noteBegin(MeasuredBudget::kLateSteps, 100 * kMib);
  EXPECT_TRUE(measured.isLate());
  EXPECT_FALSE(measured.isLate());
}

TEST(MeasuredBudget, IsKnownOnce) {
  MeasuredBudget measured;
  EXPECT_FALSE(measured.awaits());
  measured.want(form("-50%"));
  EXPECT_TRUE(measured.awaits());
  measured.know({});  // nothing was recorded
  EXPECT_TRUE(measured.awaits());
  measured.know(kFacts);
  EXPECT_FALSE(measured.awaits());
  EXPECT_EQ(measured.bytes(), (412 - 163) * kMib);
}

// Another budget for a while, then the same again: as it was known.
TEST(MeasuredBudget, WhatIsKnownOfABudgetStays) {
  MeasuredBudget measured;
  measured.want(form("60%peak"));
  measured.know(kFacts);
  const std::int64_t bytes = measured.bytes();
  measured.want(std::nullopt);
  EXPECT_FALSE(measured.awaits());
  EXPECT_FALSE(measured.known());
  measured.want(form("60%peak"));
  EXPECT_TRUE(measured.known());
  EXPECT_EQ(measured.bytes(), bytes);
  measured.want(form("-50%"));  // of another stage, say
  EXPECT_TRUE(measured.awaits());
}

}  // namespace
}  // namespace ebbtide::plugin
