#include "ebbtide/scheduler/time_lower_bound.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/search_end.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "judge/time_relaxation.hpp"
#include "solver/highs.hpp"

namespace ebbtide::scheduler {

Nanoseconds timeLowerBound(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options) {
  const Nanoseconds forced = recomputeLowerBound(graph, budget_bytes);
  const bool fits = simulate(graph, keepEverything(graph)).peak_bytes <= budget_bytes;
  if (fits || TimeRelaxation::size(graph) > TimeRelaxation::kMostSize) return forced;
  if (SearchEnd(options).reached()) return forced;
  if (budget_bytes < peakLowerBound(graph)) return forced;
  try {
    const TimeRelaxation relaxation(graph, budget_bytes, false);
    const Highs highs(findSolverWheel(options), options);
    const HighsSolution solution = highs.solve(relaxation.program);
    if (solution.row_duals.size() != relaxation.program.rows()) return forced;
    const double bound = safeDualBound(relaxation.program, solution.row_duals);
    return std::max(forced, relaxation.timeOf(bound));
  } catch (const std::exception&) {  // no wheel, no worker: the bound is a looser one
    return forced;
  }
}

}  // namespace ebbtide::scheduler
