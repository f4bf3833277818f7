#include "plan/budget_curve.hpp"

#include <algorithm>
#include <utility>

#include "ebbtide/scheduler/simulator.hpp"

namespace ebbtide::plugin {

BudgetCurve::BudgetCurve(std::shared_ptr<const scheduler::Trace> trace, bool first_step,
                         BudgetFor budget_for)
    : trace_(std::move(trace)),
      graph_(scheduler::buildGraph(*trace_, {.first_step = first_step})),
      budget_for_(std::move(budget_for)) {
  plain_peak_bytes_ =
      scheduler::simulate(graph_.graph, scheduler::keepEverything(graph_.graph)).peak_bytes;
  least_bytes_ = std::min(plain_peak_bytes_, scheduler::peakLowerBound(graph_.graph));
}

void BudgetCurve::addPoint(const PlanSearch& search) {
  if (done()) return;
  const auto step = static_cast<Bytes>(next_++);
  const auto last = static_cast<Bytes>(kPoints - 1);
  const Bytes span = plain_peak_bytes_ - least_bytes_;
  const Bytes cap = plain_peak_bytes_ - span / last * step - span % last * step / last;
  Point point{.budget_bytes = budget_for_(cap), .predicted_peak_bytes = plain_peak_bytes_};
  if (step > 0) {
    const Planned planned = search.best(*trace_, graph_, cap);
    // What nobody fits marks its own peak: that much is the least that was found.
    point.predicted_peak_bytes = planned.simulated.peak_bytes;
    if (!planned.result.feasible) point.budget_bytes = budget_for_(planned.simulated.peak_bytes);
    point.overhead_ratio = planned.overheadRatio(*trace_);
  }
  // Worse than a plan that fits as little: no point.
  const bool beaten = std::any_of(points_.begin(), points_.end(), [&](const Point& other) {
    return other.budget_bytes <= point.budget_bytes && other.overhead_ratio <= point.overhead_ratio;
  });
  if (beaten) return;
  std::erase_if(points_, [&](const Point& other) {
    return other.budget_bytes >= point.budget_bytes && other.overhead_ratio >= point.overhead_ratio;
  });
  points_.push_back(point);
  std::sort(points_.begin(), points_.end(),
            [](const Point& a, const Point& b) { return a.budget_bytes < b.budget_bytes; });
}

}  // namespace ebbtide::plugin
