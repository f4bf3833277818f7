// BudgetNotices: what is said of a budget. Once it is decided that it can be held: that there is
// nothing to do, or that each step writes to the host. Not before: until then the base grows, and a
// refusal stands alone, but for the line on the first step that went over. Torch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/budget/budget_floor.hpp"
#include "runtime/budget/budget_refusal.hpp"
#include "runtime/budget/judged_run.hpp"
#include "runtime/budget/rank_budget.hpp"
#include "runtime/budget/told_budgets.hpp"

namespace ebbtide::plugin {

class BudgetNotices {
 public:
  using Bytes = std::int64_t;
  using Held = SessionGuard::Held;

  struct Fits {  // the budget, with nothing dropped
    Bytes plain_peak_bytes = 0, activation_bytes = 0;
  };
  struct PlanMade {  // for the budget in force
    bool feasible = true;
    Bytes predicted_peak_bytes = 0;
    Bytes host_bytes = 0;  // that it writes itself
  };

  // The arguments must outlive it.
  BudgetNotices(const JudgedRun& run, RankBudget& budget, const BudgetFloor& floor,
                const BudgetRefusal& refusal, const ToldBudgets& told)
      : run_(run), budget_(budget), floor_(floor), refusal_(refusal), told_(told) {}

  void noteFits(const Held&, const Fits& fits) {
    if (!fits_ || fits.plain_peak_bytes >= fits_->plain_peak_bytes) fits_ = fits;
  }
  void notePlan(const Held& held, const PlanMade& made);
  // Each where it is to be said, and may be by now; once under each budget.
  void sayFits(const Held& held);
  void saySpills(const Held& held);
  // A step went over: the next ones may, until the budget that trains is known.
  void sayOver(const Held& held);
  // The budget, or the program, is another one.
  void forget(const Held&);

  // The budget from which on the last plan would not spill; 0: it does not, or none is known.
  Bytes withoutSpillBytes(const Held&) const { return without_spill_bytes_; }

 private:
  Fits largestOf(const Held&, const Fits& fits) const;
  bool mayBeSaid(const Held&) const { return floor_.decided() || budget_.isOpen(); }

  const JudgedRun& run_;
  RankBudget& budget_;
  const BudgetFloor& floor_;
  const BudgetRefusal& refusal_;
  const ToldBudgets& told_;
  std::optional<Fits> fits_;
  std::string spills_each_step_;  // empty: they do not, or it is said
  Bytes without_spill_bytes_ = 0;
};

}  // namespace ebbtide::plugin
