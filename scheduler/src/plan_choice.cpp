#include "plan_choice.hpp"

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

PlanChoice::PlanChoice(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options,
                       std::string planner)
    : graph_(graph), budget_(budget_bytes), deadline_(options.deadline) {
  best_.planner = std::move(planner);
  best_.schedule = keepEverything(graph);
  best_.peak_bytes = keep_peak_ = simulate(graph, best_.schedule).peak_bytes;
  best_.feasible = keep_peak_ <= budget_;
}

Bytes PlanChoice::consider(Schedule schedule) {
  if (validate(graph_, schedule)) return kNone;
  const Simulation simulation = simulate(graph_, schedule);
  const Bytes peak = simulation.peak_bytes;
  const bool feasible = peak <= budget_;
  const auto mine = std::pair(simulation.recompute_ns, peak);
  const auto other = std::pair(best_.recompute_ns, best_.peak_bytes);
  const bool better =
      feasible != best_.feasible
          ? feasible
          : (feasible ? mine < other
                      : std::pair(mine.second, mine.first) < std::pair(other.second, other.first));
  if (!better) return peak;
  best_.schedule = std::move(schedule);
  best_.peak_bytes = peak;
  best_.recompute_ns = simulation.recompute_ns;
  best_.feasible = feasible;
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
    const Bytes peak = consider(construct(limit));
    if (peak != kNone && peak <= limit) {
      high = limit;
    } else {
      low = limit + 1;
    }
  }
}

}  // namespace ebbtide::scheduler
