// What each budget costs in time, at several budgets between the memory bound and the plain peak.
#pragma once

#include <string>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "planner_input.hpp"

namespace ebbtide::cli {

struct CurvePoint {
  scheduler::Bytes budget_bytes = 0;
  bool feasible = false;
  scheduler::Bytes peak_bytes = 0;         // if infeasible, the smallest peak found
  scheduler::Nanoseconds duration_ns = 0;  // all runs
  scheduler::Nanoseconds least_ns = 0;     // no schedule within the budget takes less
  std::int64_t recomputed_ops = 0;
  std::string planner;
  std::string note;  // where that is not who was asked, nor auto's: why
};

struct TimeMemoryCurve {
  scheduler::Bytes plain_peak_bytes = 0;
  scheduler::Nanoseconds plain_ns = 0;
  scheduler::Bytes lower_bound_bytes = 0;  // no schedule has a lower peak
  // By budget, rising; the last is the plain peak. Times never rise: a schedule found for one
  // budget serves every larger one.
  std::vector<CurvePoint> points;
};

// `points` is at least 2. Plans up to input.threads budgets at once, with one thread and
// input.deadline_seconds for each. Throws what the planner throws.
TimeMemoryCurve timeMemoryCurve(const scheduler::Graph& graph, std::size_t points,
                                const PlannerInput& input);

}  // namespace ebbtide::cli
