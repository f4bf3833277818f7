#include "plan_search.hpp"

#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <stdexcept>
#include <vector>

#include "ebbtide/scheduler/advance_replays.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "ebbtide/scheduler/value_copies.hpp"
#include "plan.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::Bytes;
using scheduler::Graph;

constexpr double kCheapPlan = 0.01;  // of the step: not worth to look for a better one

}  // namespace

// By the time that a copy on the host may take, against the value's op. Others than the quicker
// ones pay where chains are long, and reach lower peaks.
Planned PlanSearch::best(const scheduler::Trace& trace, const scheduler::TraceGraph& plain,
                         Bytes cap) const {
  Planned best;
  std::vector<scheduler::TraceGraph::Restore> copies;
  for (const double times : {1.0, 3.0, std::numeric_limits<double>::infinity()}) {
    Planned next{plain, {}, {}};
    scheduler::addValueCopies(trace, next.step, times);
    if (next.step.restores == copies) continue;  // as before
    copies = next.step.restores;
    next.result = planWithin(next.step.graph, cap);
    next.simulated = scheduler::simulate(next.step.graph, next.result.schedule);
    debug_(fmt::format(
        "copies up to {} times as slow as their ops: {} peak {} of {}, {:.1f} ms more", times,
        next.result.feasible ? "feasible," : "infeasible,", next.simulated.peak_bytes, cap,
        static_cast<double>(next.simulated.recompute_ns) * 1e-6));
    if (best.result.schedule.steps.empty() || next.betterThan(best)) best = std::move(next);
    const double cost = static_cast<double>(best.simulated.recompute_ns);
    const bool cheap = cost < kCheapPlan * static_cast<double>(trace.duration_ns);
    if (options_.cancelled != nullptr && *options_.cancelled) break;
    if (trace.host.bytes_per_second == 0 || (best.result.feasible && cheap)) break;
  }
  return best;
}

void PlanSearch::replayAhead(const scheduler::Trace& trace, Planned& planned, Bytes cap) const {
  if (!options_.replay_ahead) return;
  scheduler::AdvancedReplays ahead =
      scheduler::advanceReplays(planned.step.graph, planned.result.schedule, cap);
  if (ahead.moved == 0) return;
  if (const auto problem = scheduler::validate(planned.step.graph, ahead.schedule)) {
    debug_("no replays ahead of messages: " + *problem);
    return;
  }
  try {
    makePlan(trace, planned.step, ahead.schedule);
  } catch (const std::invalid_argument& error) {
    debug_(std::string("no replays ahead of messages: ") + error.what());
    return;
  }
  planned.result.schedule = std::move(ahead.schedule);
  planned.simulated = scheduler::simulate(planned.step.graph, planned.result.schedule);
  debug_(fmt::format("{} replays of {:.1f} ms run while messages are under way", ahead.moved,
                     static_cast<double>(ahead.moved_ns) * 1e-6));
}

double Planned::overheadRatio(const scheduler::Trace& trace) const {
  return static_cast<double>(simulated.recompute_ns) /
         static_cast<double>(std::max<std::int64_t>(1, trace.duration_ns));
}

bool Planned::betterThan(const Planned& other) const {
  if (result.feasible != other.result.feasible) return result.feasible;
  if (!result.feasible && simulated.peak_bytes != other.simulated.peak_bytes)
    return simulated.peak_bytes < other.simulated.peak_bytes;
  return simulated.recompute_ns < other.simulated.recompute_ns;
}

scheduler::PlanResult PlanSearch::planWithin(const Graph& graph, Bytes cap) const {
  scheduler::PlannerOptions options;
  options.deadline = std::chrono::steady_clock::now() + options_.planning_time;
  options.cancelled = options_.cancelled;
  scheduler::PlanResult result = scheduler::planner(options_.planner).plan(graph, cap, options);
  if (const auto problem = scheduler::validate(graph, result.schedule)) {
    throw std::runtime_error("the planner's schedule is not legal: " + *problem);
  }
  return result;
}

}  // namespace ebbtide::plugin
