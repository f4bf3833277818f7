// A run without a session, and what judges its budget.
#pragma once

#include <optional>
#include <utility>

#include "judged_run.hpp"
#include "runtime/budget/budget_refusal.hpp"
#include "runtime/budget/told_budgets.hpp"
#include "runtime/budget/told_growth.hpp"

namespace ebbtide::plugin::test {

class JudgedBudgetTest : public JudgedRunTest {
 protected:
  explicit JudgedBudgetTest(Config config = {}) : JudgedRunTest(std::move(config)) {}

  const JudgedRun run_ = run();
  RankBudget budget_{std::nullopt};
  BudgetFloor floor_;
  ToldGrowth grown_{run_, floor_};
  ToldBudgets told_{trained_, floor_, grown_};
  BudgetRefusal refusal_{run_, budget_, floor_, told_};
};

}  // namespace ebbtide::plugin::test
