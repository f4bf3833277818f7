// "auto": the portfolio. Nothing is recomputed if everything fits; else the best of all planners'
// constructions, of which greedy's and the best other one are improved by local search. So unless a
// deadline ends it, it is no worse than any other planner. Every candidate is validated before it
// counts.
#pragma once

#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

class AutoPlanner : public Planner {
 public:
  PlannerInfo info() const override;
  // Option "work" as for greedy; the search from the other start gets half of it.
  PlanResult plan(const Graph& graph, Bytes budget_bytes,
                  const PlannerOptions& options) const override;

  // On graphs of at most kLadderOps ops the budgets peakLowerBound + i / kLadderSteps of the way to
  // the peak of keeping everything are planned too, where they lie below the one asked for and
  // recomputeLowerBound() leaves hope: at these budgets more memory never costs more time.
  static constexpr std::size_t kLadderOps = 200;
  static constexpr Bytes kLadderSteps = 8;
  static Bytes ladderBudget(Bytes bound_bytes, Bytes peak_bytes, Bytes step);
};

}  // namespace ebbtide::scheduler
