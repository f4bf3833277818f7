// "kusumoto-exact" and "kusumoto-approx": canonical strategies from the lower-set programs of
// kusumoto2019 (sections 4.2 to 4.4). On a graph of the paper's model (canonical_model.hpp) they
// are the paper's; on any other the programs say what to keep, and the real model judges.
#pragma once

#include <memory>

#include "ebbtide/scheduler/planner.hpp"
#include "planners/lower_sets/canonical_strategies.hpp"
#include "planners/lower_sets/lower_set_dp.hpp"
#include "search/retention_search.hpp"

namespace ebbtide::scheduler {

enum class LowerSetScope {
  kAll,     // section 4.2
  kPruned,  // section 4.3
};

class KusumotoPlanner : public Planner {
 public:
  explicit KusumotoPlanner(LowerSetScope scope) : scope_(scope) {}
  PlannerInfo info() const override;
  // Options "strategy" and "liveness".
  PlanResult plan(const Graph& graph, Bytes budget_bytes,
                  const PlannerOptions& options) const override;

 private:
  PlanResult planPaperGraph(const Graph& graph, const LowerSetProblem& problem, Bytes budget_bytes,
                            const PlannerOptions& options, const CanonicalChoice& choice) const;
  PlanResult planStep(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options,
                      LowerSetGoal goal) const;

  LowerSetScope scope_;
};

// The canonical strategies of all phases of a graph, joined under one cap: what both planners
// choose from. Solvers are made once, in time quadratic in a phase's ops. Refers to graph and
// search.
class KusumotoStrategies {
 public:
  KusumotoStrategies(const Graph& graph, RetentionSearch& search,
                     LowerSetScope scope = LowerSetScope::kPruned);
  ~KusumotoStrategies();

  // The best in the real model of the strategies for several internal budgets, made smaller by the
  // search if none fits.
  ScoredRetention construct(LowerSetGoal goal);
  // Were all lower sets asked for, and was no phase's program solved over all of them?
  bool allPruned() const;

 private:
  struct Impl;

  // The joint strategy at one level: 0 is the least internal budget of each phase, 1 the largest.
  // Does it meet the real budget? Takes it for `best` if it is better.
  bool attempt(LowerSetGoal goal, double level, ScoredRetention& best);

  std::unique_ptr<Impl> impl_;
};

// The ops of one phase as the paper's nodes: T_v the duration, M_v the bytes of outputs that
// backward needs. A step of several microbatches is as many problems, joined under one cap.
LowerSetProblem lowerSetProblem(const Graph& graph, const RetentionSearch& search,
                                const ForwardPhase& phase);

}  // namespace ebbtide::scheduler
