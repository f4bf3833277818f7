#include "runtime/budget/budget_outlook.hpp"

#include <algorithm>

#include "ebbtide/scheduler/simulator.hpp"

namespace ebbtide::plugin {
namespace {

constexpr int kOutlookPercent = 12;  // of the time that a plan's search may take

}  // namespace

BudgetOutlook::BudgetOutlook(const BudgetController& budget, const std::atomic<bool>& ends,
                             const PlanSearch::Tell& debug)
    : budget_(budget),
      ends_(ends),
      search_({.planner = "greedy",
               .replay_ahead = false,
               .planning_time = budget.run().config->planning.time * kOutlookPercent / 100,
               .work = budget.run().config->planning.work,
               .cancelled = &ends},
              debug) {}

RunSummary::Outlook BudgetOutlook::outlookOf(const scheduler::Trace& trace,
                                             const scheduler::TraceGraph& graph,
                                             Bytes budget_bytes) const {
  const Planned planned =
      search_.best(trace, graph, budget_.run().trained.planningCapBytes(budget_bytes));
  RunSummary::Outlook outlook{.budget_bytes = budget_bytes};
  outlook.spills = !planned.result.feasible;
  if (planned.result.feasible) outlook.overhead_ratio = planned.overheadRatio(trace);
  return outlook;
}

void BudgetOutlook::foresee(const scheduler::Trace& trace, const scheduler::TraceGraph& graph) {
  const Bytes plain =
      scheduler::simulate(graph.graph, scheduler::keepEverything(graph.graph)).peak_bytes;
  {
    const Held held = budget_.run().guard.hold();
    if (budget_.run().steps < kStepsForOutlook || plain <= foreseen_peak_bytes_) return;
    foreseen_peak_bytes_ = plain;
  }
  const ToldBudgets& told = budget_.verdict().told();
  const auto half = outlookOf(trace, graph, told.halfBytes(plain, graph.activation_bytes));
  const Bytes needed = budget_.verdict().floorBytes();
  auto smallest = ends_ ? RunSummary::Outlook{} : outlookOf(trace, graph, told.smallestBytes());
  smallest.needed_bytes = needed;
  if (ends_) return;  // what was cut off is no word on time
  const Held held = budget_.run().guard.hold();
  half_ = half;
  smallest_ = smallest;
}

void BudgetOutlook::addTo(const Held& held, RunSummary& run) const {
  run.half = half_;
  run.smallest = smallest_;
  const BudgetVerdict& verdict = budget_.verdict();
  const Bytes smallest = verdict.told().smallestBytes();
  const Bytes grown = verdict.grown().since(held, 0);  // since they were foreseen
  if (run.half.budget_bytes == 0) {                    // known without a plan
    run.half.budget_bytes = verdict.told().halfBytes(run.plain_peak_bytes, run.activation_bytes);
  } else {
    run.half.budget_bytes = std::max(run.half.budget_bytes + grown, smallest);
  }
  // A base that has grown, or a margin, is no part of what steps need: the plan costs as much.
  if (run.smallest.needed_bytes == verdict.floorBytes()) {
    run.smallest.budget_bytes = smallest;
  } else if (run.smallest.budget_bytes != smallest) {
    run.smallest = {.budget_bytes = smallest};
  }
}

}  // namespace ebbtide::plugin
