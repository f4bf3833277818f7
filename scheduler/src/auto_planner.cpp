#include "auto_planner.hpp"

#include <algorithm>
#include <utility>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "greedy_planner.hpp"
#include "kusumoto_planner.hpp"
#include "planner_options.hpp"

namespace ebbtide::scheduler {
namespace {

bool better(const PlanResult& a, const PlanResult& b) {
  if (a.feasible != b.feasible) return a.feasible;
  const auto first = std::pair(a.recompute_ns, a.peak_bytes);
  const auto second = std::pair(b.recompute_ns, b.peak_bytes);
  if (a.feasible) return first < second;
  return std::pair(first.second, first.first) < std::pair(second.second, second.first);
}

PlanResult keepEverythingResult(const Graph& graph, Bytes budget_bytes) {
  PlanResult result;
  result.schedule = keepEverything(graph);
  result.peak_bytes = simulate(graph, result.schedule).peak_bytes;
  result.feasible = result.peak_bytes <= budget_bytes;
  result.planner = "keep-everything";
  return result;
}

// The constructions at one budget, the best of them searched on from.
class Portfolio {
 public:
  Portfolio(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options)
      : graph_(graph), search_(graph, budget_bytes, options) {}

  PlanResult run(PlanResult best, std::int64_t work) {
    best_ = std::move(best);
    // First, since a short deadline leaves no time for more, and exactly as GreedyPlanner does it:
    // then the portfolio is never worse.
    const ScoredRetention greedy = GreedyPlanner::construct(search_);
    judge(greedy, "greedy");
    KusumotoStrategies strategies(graph_, search_);
    const Start time =
        start(strategies.construct(LowerSetGoal::kLeastTime), "kusumoto-approx strategy=time");
    const Start memory =
        start(strategies.construct(LowerSetGoal::kMostTime), "kusumoto-approx strategy=memory");
    if (!search_.late()) judge(search_.improve(greedy, work), "greedy + search");
    // The search is local, so another start may lead elsewhere.
    const Start& other = search_.better(memory.scored, time.scored) ? memory : time;
    if (sameCost(other.scored, greedy) || search_.late()) return std::move(best_);
    judge(search_.improve(other.scored, work / 2), other.name + " + search");
    return std::move(best_);
  }

 private:
  struct Start {
    ScoredRetention scored;
    std::string name;
  };

  Start start(ScoredRetention scored, const std::string& name) {
    scored = search_.feasible(scored) ? search_.keepBack(std::move(scored))
                                      : search_.shrink(std::move(scored));
    judge(scored, name);
    return {std::move(scored), name};
  }

  // A schedule that is not legal does not count at all.
  void judge(const ScoredRetention& scored, const std::string& name) {
    PlanResult result = search_.result(scored, name);
    if (!validate(graph_, result.schedule) && better(result, best_)) best_ = std::move(result);
  }

  static bool sameCost(const ScoredRetention& a, const ScoredRetention& b) {
    return a.peak_bytes == b.peak_bytes && a.recompute_ns == b.recompute_ns;
  }

  const Graph& graph_;
  RetentionSearch search_;
  PlanResult best_;
};

}  // namespace

PlannerInfo AutoPlanner::info() const {
  return {"auto",
          "own",
          "The best legal schedule of the portfolio; nothing is recomputed if everything fits.",
          {workOption()}};
}

Bytes AutoPlanner::ladderBudget(Bytes bound_bytes, Bytes peak_bytes, Bytes step) {
  return bound_bytes + (peak_bytes - bound_bytes) / kLadderSteps * step;
}

PlanResult AutoPlanner::plan(const Graph& graph, Bytes budget_bytes,
                             const PlannerOptions& options) const {
  rejectUnknownOptions(options, info());
  const std::int64_t work = integerOption(options, "work", kDefaultSearchWork);
  PlanResult everything = keepEverythingResult(graph, budget_bytes);
  if (everything.feasible) return everything;
  PlanResult best = Portfolio(graph, budget_bytes, options).run(everything, work);
  if (graph.ops.size() > kLadderOps) return best;
  const Bytes bound = peakLowerBound(graph);
  for (Bytes step = kLadderSteps; step-- > 0;) {
    const Bytes budget = ladderBudget(bound, everything.peak_bytes, step);
    if (budget >= budget_bytes) continue;
    const bool late = std::chrono::steady_clock::now() >= options.deadline;
    // From there on down nothing can be better.
    const bool bounded = best.feasible && best.recompute_ns <= recomputeLowerBound(graph, budget);
    if (late || bounded) break;
    PlanResult lower = Portfolio(graph, budget, options).run(everything, work);
    lower.feasible = lower.peak_bytes <= budget_bytes;
    if (better(lower, best)) best = std::move(lower);
  }
  return best;
}

}  // namespace ebbtide::scheduler
