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

constexpr std::size_t kStartsSearched = 2;  // the best constructions; the search is local

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
    add(GreedyPlanner::construct(search_), "greedy");  // first: the best of a short deadline
    add(KusumotoPlanner::construct(search_, graph_, LowerSetGoal::kLeastTime),
        "kusumoto-approx-time");
    add(KusumotoPlanner::construct(search_, graph_, LowerSetGoal::kMostTime),
        "kusumoto-approx-memory");
    std::stable_sort(starts_.begin(), starts_.end(), [this](const Start& a, const Start& b) {
      return search_.better(a.scored, b.scored);
    });
    const std::size_t searched = std::min(starts_.size(), kStartsSearched);
    for (std::size_t i = 0; i < searched && !search_.late(); ++i) {
      const auto share = work / static_cast<std::int64_t>(searched);
      judge(search_.improve(starts_[i].scored, share), starts_[i].name + " + search");
    }
    return std::move(best_);
  }

 private:
  struct Start {
    ScoredRetention scored;
    std::string name;
  };

  void add(ScoredRetention scored, const std::string& name) {
    if (search_.feasible(scored)) {
      scored = search_.keepBack(std::move(scored));
    } else {
      scored = search_.shrink(std::move(scored));
    }
    if (judge(scored, name)) starts_.push_back({std::move(scored), name});
  }

  // False if the schedule is not legal: then it does not count at all.
  bool judge(const ScoredRetention& scored, const std::string& name) {
    PlanResult result = search_.result(scored, name);
    if (validate(graph_, result.schedule)) return false;
    if (better(result, best_)) best_ = std::move(result);
    return true;
  }

  const Graph& graph_;
  RetentionSearch search_;
  PlanResult best_;
  std::vector<Start> starts_;
};

}  // namespace

PlannerInfo AutoPlanner::info() const {
  return {"auto", "own",
          "The best legal schedule of the portfolio; nothing is recomputed if everything fits."};
}

Bytes AutoPlanner::ladderBudget(Bytes bound_bytes, Bytes peak_bytes, Bytes step) {
  return bound_bytes + (peak_bytes - bound_bytes) / kLadderSteps * step;
}

PlanResult AutoPlanner::plan(const Graph& graph, Bytes budget_bytes,
                             const PlannerOptions& options) const {
  rejectUnknownOptions(options, {"work"});
  const std::int64_t work = integerOption(options, "work", kDefaultSearchWork);
  const PlanResult everything = keepEverythingResult(graph, budget_bytes);
  if (everything.feasible) return everything;
  PlanResult best = Portfolio(graph, budget_bytes, options).run(everything, work);
  if (graph.ops.size() > kLadderOps) return best;
  const Bytes bound = peakLowerBound(graph);
  for (Bytes step = 0; step < kLadderSteps; ++step) {
    const Bytes budget = ladderBudget(bound, everything.peak_bytes, step);
    const bool late = std::chrono::steady_clock::now() >= options.deadline;
    if (budget >= budget_bytes || late || (best.feasible && best.recompute_ns == 0)) break;
    PlanResult lower = Portfolio(graph, budget, options).run(everything, work);
    lower.feasible = lower.peak_bytes <= budget_bytes;
    if (better(lower, best)) best = std::move(lower);
  }
  return best;
}

}  // namespace ebbtide::scheduler
