// BudgetOutlook: what two budgets would cost that were not set, for half of the activations and the
// smallest: foreseen by plans that are quickly found, told at the run's end. Torch-free.
#pragma once

#include <atomic>
#include <cstdint>

#include "plan/plan_search.hpp"
#include "runtime/budget/budget_controller.hpp"
#include "runtime/run/run_summary.hpp"

namespace ebbtide::plugin {

class BudgetOutlook {
 public:
  using Bytes = std::int64_t;
  using Held = SessionGuard::Held;

  // Both must outlive it. `ends`: the process ends, and planning with it.
  BudgetOutlook(const BudgetController& budget, const std::atomic<bool>& ends,
                const PlanSearch::Tell& debug);

  // Of a recorded step, where there is no budget, by the planning thread. Takes the guard.
  void foresee(const scheduler::Trace& trace, const scheduler::TraceGraph& graph);
  // To what else a run took.
  void addTo(const Held& held, RunSummary& run) const;

 private:
  RunSummary::Outlook outlookOf(const scheduler::Trace& trace, const scheduler::TraceGraph& graph,
                                Bytes budget_bytes) const;

  const BudgetController& budget_;
  const std::atomic<bool>& ends_;
  const PlanSearch search_;
  // The guard guards these.
  RunSummary::Outlook half_, smallest_;
  Bytes foreseen_peak_bytes_ = 0;  // of the program that they are of
};

}  // namespace ebbtide::plugin
