// Plans graphs of kusumoto2019's model (canonicalGraph) by its programs, every strategy judged by
// the simulator.
#pragma once

#include <functional>

#include "ebbtide/scheduler/planner.hpp"
#include "planners/lower_sets/canonical_schedule.hpp"
#include "planners/lower_sets/lower_set_dp.hpp"

namespace ebbtide::scheduler {

struct CanonicalChoice {
  LowerSetGoal goal = LowerSetGoal::kLeastTime;
  DropTime drops = DropTime::kAfterReader;
};

// Without liveness analysis the budget is the program's, and the result its optimum on the solver's
// family. With it a strategy takes less than the program reckons with, by an amount that only the
// schedule tells: strategies for several of the program's budgets are simulated.
PlanResult planCanonical(const Graph& graph, const LowerSetSolver& solver, Bytes budget_bytes,
                         const CanonicalChoice& choice, const std::function<bool()>& late);

}  // namespace ebbtide::scheduler
