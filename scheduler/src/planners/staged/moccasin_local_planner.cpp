#include "planners/staged/moccasin_local_planner.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "ebbtide/scheduler/simulator.hpp"
#include "model/planner_options.hpp"
#include "planners/greedy/greedy_planner.hpp"
#include "search/plan_choice.hpp"
#include "search/replay_polish.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::int64_t kDefaultMoves = 3'000'000;  // some five seconds
constexpr std::int64_t kMostIntervals = 1'000;
// The greedy start takes time that grows faster than the graph: 30 s and more on 100,000 ops.
constexpr std::size_t kMostOps = 20'000;

std::int64_t movesAllowed(const PlannerOptions& options) {
  const bool timed = options.deadline != kNoDeadline;
  return integerOption(options, "work", timed ? PolishEffort::kUntilDeadline : kDefaultMoves);
}

int intervalsAllowed(const PlannerOptions& options) {
  const std::int64_t intervals = integerOption(options, "intervals", 6);
  if (intervals < 1 || intervals > kMostIntervals) {
    throw std::invalid_argument("planner option 'intervals' is not within 1 to " +
                                std::to_string(kMostIntervals));
  }
  return static_cast<int>(intervals);
}

}  // namespace

PlannerInfo MoccasinLocalPlanner::info() const {
  return {
      "moccasin-local",
      "own; retention intervals of moccasin2023 section 2, in its staged order (2.3)",
      "Never worse than its greedy start.",
      {{"work", std::to_string(kDefaultMoves),
        "moves tried by each thread; default with a deadline: until then"},
       {"intervals", "[6] 1 to 1000",
        "copies of a value that the search may make, the first one included; its start may have "
        "more"}}};
}

PlanResult MoccasinLocalPlanner::plan(const Graph& graph, Bytes budget_bytes,
                                      const PlannerOptions& options) const {
  rejectUnknownOptions(options, info());
  intervalsAllowed(options);
  const auto judged = [&](Schedule schedule) {
    return judgedPlan(graph, budget_bytes, std::move(schedule), info().name);
  };
  PlanResult best = judged(keepEverything(graph));
  if (best.feasible) return best;
  const bool large = graph.ops.size() > kMostOps;
  const Nanoseconds bound = recomputeLowerBound(graph, budget_bytes);
  if (graph.hasBackward() && !large) {
    RetentionSearch greedy(graph, budget_bytes, options);
    Schedule start = greedy.result(GreedyPlanner::construct(greedy), "greedy").schedule;
    PlanResult constructed = judged(std::move(start));
    if (betterPlan(constructed, best)) best = std::move(constructed);
  }
  const PolishEffort effort{movesAllowed(options), intervalsAllowed(options), bound};
  PlanResult found = judged(polish(graph, budget_bytes, options, best.schedule, effort));
  if (betterPlan(found, best)) best = std::move(found);
  best.optimal = best.feasible && best.recompute_ns <= bound;
  best.recompute_bound_ns = bound;
  return best;
}

}  // namespace ebbtide::scheduler
