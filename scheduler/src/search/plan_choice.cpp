#include "search/plan_choice.hpp"

#include <algorithm>
#include <utility>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"

namespace ebbtide::scheduler {
namespace {

// Limits tried for a budget: less by these percents of what it has above the lower bound.
constexpr Bytes kSharesBelow[] = {0, 3, 10};

constexpr int kBisections = 10;

}  // namespace

PlanResult judgedPlan(const Graph& graph, Bytes budget_bytes, Schedule schedule,
                      std::string planner) {
  const Simulation simulation = simulate(graph, schedule);
  PlanResult result;
  result.schedule = std::move(schedule);
  result.peak_bytes = simulation.peak_bytes;
  result.recompute_ns = simulation.recompute_ns;
  result.feasible = result.peak_bytes <= budget_bytes;
  result.optimal = result.feasible && result.recompute_ns == 0;
  result.planner = std::move(planner);
  return result;
}

PlanChoice::PlanChoice(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options,
                       std::string planner)
    : graph_(graph),
      budget_(budget_bytes),
      end_(options),
      best_(judgedPlan(graph, budget_bytes, keepEverything(graph), std::move(planner))),
      keep_peak_(best_.peak_bytes) {}

// Planners make legal schedules. The validator, who takes as long as the simulator, is asked about
// those alone that would be taken.
Bytes PlanChoice::consider(Schedule schedule) {
  PlanResult result = judgedPlan(graph_, budget_, std::move(schedule), best_.planner);
  const Bytes peak = result.peak_bytes;
  if (betterPlan(result, best_) && !validate(graph_, result.schedule)) best_ = std::move(result);
  return peak;
}

void PlanChoice::searchLimits(const std::function<Schedule(Bytes limit_bytes)>& construct) {
  const Bytes bound = peakLowerBound(graph_);
  const Bytes above = std::min(budget_, keep_peak_) - bound;
  for (const Bytes share : kSharesBelow) {
    if (above < 0 || feasible() || late()) break;
    consider(construct(bound + above - above / 100 * share));
  }
  // The smallest limit that is met: then more or less the smallest peak.
  Bytes low = bound, high = keep_peak_;
  for (int i = 0; i < kBisections && low < high && !feasible() && !late(); ++i) {
    const Bytes limit = low + (high - low) / 2;
    if (consider(construct(limit)) <= limit) {
      high = limit;
    } else {
      low = limit + 1;
    }
  }
}

}  // namespace ebbtide::scheduler
