#include "time_memory_curve.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "in_parallel.hpp"
#include "least_duration.hpp"

namespace ebbtide::cli {
namespace {

using namespace scheduler;

CurvePoint planned(const Graph& graph, Bytes budget, const PlannerInput& input) {
  PlannerOptions options = input.options();
  options.threads = 1;  // the budgets are what runs in parallel
  const PlanResult result = planner(input.planner).plan(graph, budget, options);
  if (const auto problem = validate(graph, result.schedule)) {
    throw std::logic_error("the schedule of " + result.planner + " is not legal: " + *problem);
  }
  const Simulation simulation = simulate(graph, result.schedule);
  return {.budget_bytes = budget,
          .feasible = simulation.peak_bytes <= budget,
          .peak_bytes = simulation.peak_bytes,
          .duration_ns = simulation.duration_ns,
          .recomputed_ops = simulation.recomputed_ops,
          .planner = result.planner,
          .note = result.note};
}

// What no schedule within a budget undercuts, none within a smaller one does.
void raiseBounds(std::vector<CurvePoint>& points) {
  for (std::size_t i = points.size(); i-- > 1;) {
    points[i - 1].least_ns = std::max(points[i - 1].least_ns, points[i].least_ns);
  }
}

// Of two schedules for one budget the first is the one to take.
bool better(const CurvePoint& a, const CurvePoint& b, Bytes budget) {
  const bool a_fits = a.peak_bytes <= budget;
  if (a_fits != (b.peak_bytes <= budget)) return a_fits;
  const auto time_first = [](const CurvePoint& p) {
    return std::pair(p.duration_ns, p.peak_bytes);
  };
  const auto peak_first = [](const CurvePoint& p) {
    return std::pair(p.peak_bytes, p.duration_ns);
  };
  return a_fits ? time_first(a) < time_first(b) : peak_first(a) < peak_first(b);
}

// Each point takes the best of all schedules.
std::vector<CurvePoint> envelope(const std::vector<CurvePoint>& found) {
  std::vector<CurvePoint> points;
  for (const CurvePoint& point : found) {
    const Bytes budget = point.budget_bytes;
    CurvePoint best = *std::min_element(
        found.begin(), found.end(),
        [&](const CurvePoint& a, const CurvePoint& b) { return better(a, b, budget); });
    best.budget_bytes = budget;
    best.feasible = best.peak_bytes <= budget;
    best.least_ns = point.least_ns;
    points.push_back(std::move(best));
  }
  return points;
}

}  // namespace

TimeMemoryCurve timeMemoryCurve(const Graph& graph, std::size_t points, const PlannerInput& input) {
  const Simulation plain = simulate(graph, keepEverything(graph));
  TimeMemoryCurve curve;
  curve.plain_peak_bytes = plain.peak_bytes;
  curve.plain_ns = plain.duration_ns;
  curve.lower_bound_bytes = peakLowerBound(graph);
  std::vector<CurvePoint> found(points);
  const Bytes span = curve.plain_peak_bytes - curve.lower_bound_bytes;
  const auto last = static_cast<Bytes>(points - 1);
  inParallel(points, input.threads, [&](std::size_t i) {
    const auto step = static_cast<Bytes>(i);
    const Bytes budget =  // (span * i) / last without a large product
        curve.lower_bound_bytes + span / last * step + span % last * step / last;
    found[i] = planned(graph, budget, input);
    found[i].least_ns = leastDuration(graph, budget, curve.plain_ns, input.options());
  });
  raiseBounds(found);
  curve.points = envelope(found);
  return curve;
}

}  // namespace ebbtide::cli
