// BudgetVerdict: whether a run's budget can be held: what the steps tell, and what follows where it
// cannot: one that was asked for is taken back, a pause comes again, else it is refused.
// Torch-free.
//
//   step k goes over ──► one line at its end ──► k+1, k+2 … go over, too, and are counted
//     ──► the base is settled, at the latest when k+3 begins: refused, with the budget that trains
//           └ lower than k's, and a step has held since: judged anew, once, by the steps to come
//
// A program that catches the refusal and goes on with something else, a smaller batch for one, is
// judged anew.
//
// Thread rule: what takes no Held from any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include "job/job_findings.hpp"
#include "runtime/budget/budget_floor.hpp"
#include "runtime/budget/budget_notices.hpp"
#include "runtime/budget/budget_refusal.hpp"
#include "runtime/budget/judged_run.hpp"
#include "runtime/budget/rank_budget.hpp"
#include "runtime/budget/told_budgets.hpp"
#include "runtime/budget/told_growth.hpp"

namespace ebbtide::plugin {

class BudgetVerdict {
 public:
  using Bytes = std::int64_t;
  using Held = SessionGuard::Held;
  using Need = BudgetRefusal::Need;

  // Both must outlive it.
  BudgetVerdict(const JudgedRun& run, RankBudget& budget) : run_(run), budget_(budget) {}

  const ToldBudgets& told() const noexcept { return told_; }
  Bytes floorBytes() const noexcept { return floor_.neededBytes(); }  // what steps need; 0: unknown
  Bytes floorBaseBytes(const Held&) const noexcept { return floor_.neededBaseBytes(); }
  BudgetRefusal& refusal() noexcept { return refusal_; }
  const BudgetRefusal& refusal() const noexcept { return refusal_; }
  ToldGrowth& grown() noexcept { return grown_; }
  const ToldGrowth& grown() const noexcept { return grown_; }
  BudgetNotices& notices() noexcept { return notices_; }
  const BudgetNotices& notices() const noexcept { return notices_; }

  // --- what is learnt
  // The first step begins. `own`: what came before it is a word on its budget.
  void noteStart(bool own);
  // An out-of-memory error leaves for the program, which asked for so much.
  void noteFailedAllocation(std::size_t bytes) noexcept;
  bool allocationFailed() const noexcept { return allocation_failed_; }  // since a step began
  // A step that was recorded, the process's so many-th, is over: is it one that decides?
  bool takesStep(const Held&, std::int64_t steps, bool part_of_another) {
    return floor_.takesStep(steps, part_of_another);
  }
  // It was, or there is no budget. `graph`: where what nothing reads may go. Takes the guard, and
  // is called by the step's thread.
  void noteFloor(const scheduler::Trace& trace, const scheduler::TraceGraph& graph, bool alone,
                 int budget_number);
  // A step of this thread that another step kept from being recorded is over.
  void noteUnrecorded(const Held&, bool over, std::int64_t violations) {
    floor_.noteUnrecorded(std::this_thread::get_id(), over, violations);
  }
  // The least that steps with such a base need, as it is foreseen.
  void noteLeast(const Held& held, Bytes bytes, Bytes base_bytes);
  // What a recorded step needs under a budget that is asked for.
  void noteNeed(const Held& held, const Need& need);
  // At the end of a step: of the budget, in the process so far.
  void noteViolations(const Held&, std::int64_t violations) { violations_ = violations; }
  std::int64_t violations(const Held&) const { return violations_; }
  // Of the budget in force alone.
  std::int64_t violationsOfBudget(const Held&) const {
    return std::max<std::int64_t>(0, violations_ - violations_before_budget_);
  }

  // --- a step begins
  void beginStep(const Held& held, Bytes base_bytes, bool trains);
  // What failed where the machine or the group is full may be caught.
  void forgetFailed(const Held& held);
  // With this op and so much, after a refusal that the program has caught.
  void letGoOn(const Held& held, std::uint64_t first_op_signature, Bytes base_bytes);

  // What lives when a step begins is settled, as others found: no budget is judged by it.
  void noteBaseSettled(const Held& held);

  // --- what follows
  bool decided(const Held&) const { return floor_.decided(); }
  // The budget, the plan or the rank is another one: the next steps decide.
  void checkAgain(const Held&) { floor_.checkAgain(); }
  // Violations until now are no word on the budget in force.
  void countFrom(const Held&, std::int64_t violations) { floor_.countFrom(violations); }
  // Nor is anything that happened until now.
  void judgeFromNowOn(const Held& held);
  // As a run that begins: its first step may go over an impossible budget, and is judged by it.
  void beginAnew(const Held& held);
  void mayGoOver(const Held&) { run_.trained.limitOverrun(); }
  // The budget that was asked for cannot be held. False: none was.
  bool takeBack(const Held&, const std::string& why);
  // Whatever a rank of a pipeline computes again, its budget is too small for its stages.
  void fallShort(const Held& held, const JobFindings::Rank& of);
  // To whoever reads series.
  void exportSmallest(const Held&);

 private:
  bool noteMost(const Held& held, const Need& need);
  bool pauseAgain(const Held&, const std::string& why);
  void beginOther(const Held& held);
  void beginMeasuredStep(const Held& held, Bytes base_bytes, bool trains);
  void beginDecidedStep(const Held& held, Bytes base_bytes, bool tells);
  void hold(const Held& held, Bytes base_before, Bytes base_bytes);

  const JudgedRun& run_;
  RankBudget& budget_;
  BudgetFloor floor_;
  ToldGrowth grown_{run_, floor_};
  const ToldBudgets told_{run_.trained, floor_, grown_};
  BudgetRefusal refusal_{run_, budget_, floor_, told_};
  BudgetNotices notices_{run_, budget_, floor_, refusal_, told_};
  std::atomic<bool> allocation_failed_ = false;  // since a step began
  // The guard guards these.
  std::int64_t begin_told_after_ = -1;  // steps that had ended
  std::int64_t violations_at_begin_ = 0;
  std::int64_t violations_ = 0, violations_before_budget_ = 0;
};

}  // namespace ebbtide::plugin
