#include "ebbtide/scheduler/step_search.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <vector>

#include "base/search_end.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "ebbtide/scheduler/value_copies.hpp"
#include "planners/auto/first_plan.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr double kCopyTimes[] = {1.0, 3.0, std::numeric_limits<double>::infinity()};
// Of the step, that a plan may add which is found at once: with more, a step waits less without it.
constexpr double kMostAdded = 0.6;
// That a first plan may take: so long for 2,500 ops, say, takes 190 ms; or as long as the step.
constexpr std::chrono::milliseconds kFirstTime{50};
constexpr std::chrono::microseconds kFirstTimeOfAnOp{75};
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
  for (const double times : kCopyTimes) {
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

// Where computing again does not fit alone, with as much as possible on the host.
std::optional<PlannedStep> StepSearch::first(const Trace& trace, const TraceGraph& plain,
                                             Bytes cap) const {
  if (options_.planner != "auto") return std::nullopt;
  PlannerOptions options = plannerOptions(firstTime(trace));
  if (options_.work) options.deadline = kNoDeadline;  // work alone ends searches
  for (const double times : {1.0, std::numeric_limits<double>::infinity()}) {
    PlannedStep found{plain, {}, {}};
    addValueCopies(trace, found.step, times);
    found.result = firstPlan(found.step.graph, cap, options);
    if (found.result.feasible) {
      found.simulated = simulate(found.step.graph, found.result.schedule);
      if (found.overheadRatio(trace) <= kMostAdded) return found;
    }
    if (SearchEnd(options).reached()) break;
    if (trace.host.bytes_per_second == 0) break;
  }
  return std::nullopt;
}

std::optional<PlannedStep> StepSearch::again(const Trace& trace, const TraceGraph& plain, Bytes cap,
                                             const PlannedStep& before) {
  for (const double times : kCopyTimes) {
    PlannedStep found{plain, before.result, {}};
    addValueCopies(trace, found.step, times);
    if (found.step.restores != before.step.restores) continue;
    if (validate(found.step.graph, found.result.schedule)) continue;
    found.simulated = simulate(found.step.graph, found.result.schedule);
    found.result.peak_bytes = found.simulated.peak_bytes;
    found.result.recompute_ns = found.simulated.recompute_ns;
    found.result.feasible = found.simulated.peak_bytes <= cap;
    found.result.optimal = false;
    if (found.result.feasible && found.overheadRatio(trace) <= kMostAdded) return found;
  }
  return std::nullopt;
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

std::chrono::nanoseconds StepSearch::firstTime(const Trace& trace) const {
  const auto ops = static_cast<std::int64_t>(trace.ops.size());
  const std::chrono::nanoseconds step{trace.duration_ns};
  return std::min<std::chrono::nanoseconds>(
      options_.planning_time,
      std::max<std::chrono::nanoseconds>({kFirstTime, ops * kFirstTimeOfAnOp, step}));
}

PlannerOptions StepSearch::plannerOptions(std::chrono::nanoseconds time) const {
  PlannerOptions options;
  options.deadline = std::chrono::steady_clock::now() + time;
  options.cancelled = options_.cancelled;
  return options;
}

PlanResult StepSearch::planWithin(const Graph& graph, Bytes cap) const {
  const Planner& asked =
      options_.in_its_place != nullptr ? *options_.in_its_place : planner(options_.planner);
  PlannerOptions options = plannerOptions(options_.planning_time);
  if (options_.pace != nullptr) {
    options_.pace->begin(options_.planning_time);
    options.deadline = kNoDeadline;
    options.pace = options_.pace;
  }
  if (options_.work) options.named["work"] = std::to_string(*options_.work);
  PlanResult result = asked.plan(graph, cap, options);
  if (const auto problem = validate(graph, result.schedule)) {
    throw std::runtime_error("the planner's schedule is not legal: " + *problem);
  }
  return result;
}

}  // namespace ebbtide::scheduler
