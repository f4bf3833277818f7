// "auto": composes the others. Nothing is recomputed if everything fits. Else, for a training step:
//
//   cut where one value crosses ─► solve each distinct block ─► join (rotor2024's program) ─┐
//   greedy and lower-set constructions, local search from greedy; not on the largest graphs ┴► best
//   best ─► annealing over its replays until the work is done, little is gained, or a deadline
//
// A graph with no backward events, or one whose first runs come in any order, goes to
// moccasin-local. Every candidate is validated and simulated before it counts, so the result is no
// worse than any of them.
#pragma once

#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

class AutoPlanner : public Planner {
 public:
  PlannerInfo info() const override;
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
