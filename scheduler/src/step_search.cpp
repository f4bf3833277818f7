#include "ebbtide/scheduler/step_search.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <vector>

#include "ebbtide/scheduler/validator.hpp"
#include "ebbtide/scheduler/value_copies.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr double kCheapPlan = 0.01;  // of the step: not worth to look for a better one

std::string triedText(double times, const PlannedStep& found, Bytes cap) {
  char text[200];
  std::snprintf(text, sizeof text,
                "copies up to %g times as slow as their ops: %s peak %lld of %lld, %.1f ms more",
                times, found.result.feasible ? "feasible," : "infeasible,",
                static_cast<long long>(found.simulated.peak_bytes), static_cast<long long>(cap),
                static_cast<double>(found.simulated.recompute_ns) * 1e-6);
  return text;
}

}  // namespace

// By the time that a copy on the host may take, against the value's op. Others than the quicker
// ones pay where chains are long, and reach lower peaks.
PlannedStep StepSearch::best(const Trace& trace, const TraceGraph& plain, Bytes cap) const {
  PlannedStep best;
  std::vector<TraceGraph::Restore> copies;
  for (const double times : {1.0, 3.0, std::numeric_limits<double>::infinity()}) {
    PlannedStep next{plain, {}, {}};
    addValueCopies(trace, next.step, times);
    if (next.step.restores == copies) continue;  // as before
    copies = next.step.restores;
    next.result = planWithin(next.step.graph, cap);
    next.simulated = simulate(next.step.graph, next.result.schedule);
    if (debug_) debug_(triedText(times, next, cap));
    if (best.result.schedule.steps.empty() || next.betterThan(best)) best = std::move(next);
    const double cost = static_cast<double>(best.simulated.recompute_ns);
    const bool cheap = cost < kCheapPlan * static_cast<double>(trace.duration_ns);
    if (options_.cancelled != nullptr && *options_.cancelled) break;
    if (trace.host.bytes_per_second == 0 || (best.result.feasible && cheap)) break;
  }
  return best;
}

double PlannedStep::overheadRatio(const Trace& trace) const {
  return static_cast<double>(simulated.recompute_ns) /
         static_cast<double>(std::max<std::int64_t>(1, trace.duration_ns));
}

bool PlannedStep::betterThan(const PlannedStep& other) const {
  if (result.feasible != other.result.feasible) return result.feasible;
  if (!result.feasible && simulated.peak_bytes != other.simulated.peak_bytes)
    return simulated.peak_bytes < other.simulated.peak_bytes;
  return simulated.recompute_ns < other.simulated.recompute_ns;
}

PlanResult StepSearch::planWithin(const Graph& graph, Bytes cap) const {
  PlannerOptions options;
  options.deadline = std::chrono::steady_clock::now() + options_.planning_time;
  options.cancelled = options_.cancelled;
  if (options_.work) options.named["work"] = std::to_string(*options_.work);
  PlanResult result = planner(options_.planner).plan(graph, cap, options);
  if (const auto problem = validate(graph, result.schedule)) {
    throw std::runtime_error("the planner's schedule is not legal: " + *problem);
  }
  return result;
}

}  // namespace ebbtide::scheduler
