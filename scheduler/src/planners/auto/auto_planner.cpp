#include "planners/auto/auto_planner.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/search_end.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "model/planner_options.hpp"
#include "model/saved_bytes.hpp"
#include "planners/chain/chain_join.hpp"
#include "planners/greedy/greedy_planner.hpp"
#include "planners/lower_sets/kusumoto_planner.hpp"
#include "planners/staged/moccasin_local_planner.hpp"
#include "planners/treewidth/pwremat_planner.hpp"
#include "planners/treewidth/twremat_planner.hpp"
#include "search/plan_choice.hpp"
#include "search/replay_polish.hpp"

namespace ebbtide::scheduler {
namespace {

// Beyond these the searches on the whole graph take longer than the blocks and the annealing.
constexpr std::size_t kMostGreedyOps = 20'000, kMostSearchOps = 4'000;

// So many ops are reordered in a tenth of a second or so.
constexpr std::size_t kMostReorderedOps = 300;

// Schedule steps of the option `work` that one move of the annealing stands for, by the time that
// each takes.
constexpr std::int64_t kStepsPerMove = 100;

// Two rounds of annealing that gain less than this share of the step's time end it.
constexpr double kLeastGain = 1e-3;

// Of graphs that are kept annealing may count too little (replay_polish.hpp): then it is told to
// stay so much below the budget, so often.
constexpr int kAnnealings = 3;

// Another start is searched from too if it recomputes for no longer than so many times greedy's.
constexpr double kPromisingRatio = 1.25;

// A forward pass in program order and its backward pass, recorded or of a paper's chain.
bool hasPasses(const Graph& graph) {
  return !graph.any_order && graph.hasBackward();
}

// One budget's candidates, and the best of them.
class Composition {
 public:
  Composition(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options,
              PlanResult everything)
      : graph_(graph), budget_(budget_bytes), options_(options), best_(std::move(everything)) {
    best_.feasible = best_.peak_bytes <= budget_;
    bound_ns_ = recomputeLowerBound(graph, budget_);
  }

  PlanResult run(std::int64_t work) {
    if (!hasPasses(graph_)) {
      planAnyGraph(work);
    } else if (!done()) {
      consider(joinBlocks(graph_, budget_, options_));
      if (!done() && graph_.keepsGraphs()) considerBlocksWithSaved();
      if (!done()) searchRetentions(work);
      if (!done()) anneal(work);
    }
    best_.recompute_bound_ns = bound_ns_;
    best_.optimal = best_.feasible && best_.recompute_ns <= bound_ns_;
    return std::move(best_);
  }

 private:
  bool done() const {
    const bool optimal = best_.feasible && best_.recompute_ns <= bound_ns_;
    return optimal || SearchEnd(options_).reached();
  }

  // A schedule that is not legal does not count at all.
  void consider(PlanResult result) {
    if (betterPlan(result, best_) && !validate(graph_, result.schedule)) best_ = std::move(result);
  }

  // Blocks do not know of graphs that are kept: here as if nothing were made again.
  void considerBlocksWithSaved() {
    const Graph fixed = withSavedFixed(graph_, keepEverything(graph_));
    PlanResult joined = joinBlocks(fixed, budget_, options_);
    consider(judgedPlan(graph_, budget_, std::move(joined.schedule), joined.planner));
  }

  // Another order of first runs may need less memory; moccasin-local keeps to the graph's.
  void considerOtherOrders() {
    PlannerOptions options = options_;
    options.named.clear();
    consider(TwRematPlanner(true).plan(graph_, budget_, options));
    consider(PwRematPlanner().plan(graph_, budget_, options));
  }

  // Without a work given it goes on until the deadline: nothing else is known to be better there.
  void planAnyGraph(std::int64_t work) {
    if (graph_.any_order && graph_.ops.size() <= kMostReorderedOps) considerOtherOrders();
    if (done()) return;
    PlannerOptions options = options_;
    if (options.named.contains("work")) {
      options.named["work"] = std::to_string(work / kStepsPerMove);
    }
    consider(MoccasinLocalPlanner().plan(graph_, budget_, options));
  }

  void searchRetentions(std::int64_t work) {
    if (graph_.ops.size() > kMostGreedyOps) return;
    RetentionSearch search(graph_, budget_, options_);
    const ScoredRetention greedy = GreedyPlanner::construct(search);
    consider(search.result(greedy, "greedy"));
    if (graph_.ops.size() > kMostSearchOps || done()) return;
    KusumotoStrategies strategies(graph_, search);
    const ScoredRetention time = lowerSets(strategies, search, LowerSetGoal::kLeastTime);
    const ScoredRetention memory = lowerSets(strategies, search, LowerSetGoal::kMostTime);
    if (!done()) consider(search.result(search.improve(greedy, work), "greedy + search"));
    // The search is local, so another start may lead elsewhere.
    const ScoredRetention& other = search.better(memory, time) ? memory : time;
    if (done() || !promising(search, other, greedy)) return;
    consider(search.result(search.improve(other, work / 2), "kusumoto-approx + search"));
  }

  ScoredRetention lowerSets(KusumotoStrategies& strategies, RetentionSearch& search,
                            LowerSetGoal goal) {
    ScoredRetention scored = strategies.construct(goal);
    scored = search.feasible(scored) ? search.keepBack(std::move(scored))
                                     : search.shrink(std::move(scored));
    consider(search.result(scored, "kusumoto-approx"));
    return scored;
  }

  static bool promising(const RetentionSearch& search, const ScoredRetention& other,
                        const ScoredRetention& greedy) {
    if (search.better(other, greedy)) return true;
    if (search.feasible(other) != search.feasible(greedy)) return false;
    if (!search.feasible(other)) return other.peak_bytes != greedy.peak_bytes;
    return other.recompute_ns != greedy.recompute_ns &&
           static_cast<double>(other.recompute_ns) <=
               kPromisingRatio * static_cast<double>(greedy.recompute_ns);
  }

  void anneal(std::int64_t work) {
    const PolishEffort effort{
        .moves = work / kStepsPerMove, .enough_ns = bound_ns_, .least_gain = kLeastGain};
    const PlanResult start = best_;
    Bytes budget = budget_;
    for (int round = 0; round < kAnnealings && !SearchEnd(options_).reached(); ++round) {
      Schedule polished = polish(graph_, budget, options_, start.schedule, effort);
      PlanResult found =
          judgedPlan(graph_, budget_, std::move(polished), start.planner + " + annealing");
      const Bytes over = found.peak_bytes - budget_;
      consider(std::move(found));
      if (over <= 0 || !graph_.keepsGraphs()) break;
      budget -= over;
    }
  }

  const Graph& graph_;
  const Bytes budget_;
  const PlannerOptions& options_;
  Nanoseconds bound_ns_ = 0;
  PlanResult best_;
};

}  // namespace

PlannerInfo AutoPlanner::info() const {
  return {"auto",
          "own; blocks joined by rotor2024's program, retention intervals of moccasin2023",
          "No worse than its parts; with it comes a lower bound on the recompute time.",
          {workOption()}};
}

Bytes AutoPlanner::ladderBudget(Bytes bound_bytes, Bytes peak_bytes, Bytes step) {
  return bound_bytes + (peak_bytes - bound_bytes) / kLadderSteps * step;
}

PlanResult AutoPlanner::plan(const Graph& graph, Bytes budget_bytes,
                             const PlannerOptions& options) const {
  rejectUnknownOptions(options, info());
  const std::int64_t work = integerOption(options, "work", kDefaultSearchWork);
  PlanResult everything = judgedPlan(graph, budget_bytes, keepEverything(graph), "keep-everything");
  if (everything.feasible || SearchEnd(options).reached()) return everything;
  PlanResult best = Composition(graph, budget_bytes, options, everything).run(work);
  if (graph.ops.size() > kLadderOps || !hasPasses(graph)) return best;
  const Bytes bound = peakLowerBound(graph);
  for (Bytes step = kLadderSteps; step-- > 0;) {
    const Bytes budget = ladderBudget(bound, everything.peak_bytes, step);
    if (budget >= budget_bytes) continue;
    // From there on down nothing can be better.
    const bool bounded = best.feasible && best.recompute_ns <= recomputeLowerBound(graph, budget);
    if (bounded || SearchEnd(options).reached()) break;
    PlanResult lower = Composition(graph, budget, options, everything).run(work);
    lower.feasible = lower.peak_bytes <= budget_bytes;
    lower.recompute_bound_ns = best.recompute_bound_ns;
    lower.optimal = lower.feasible && lower.recompute_ns <= best.recompute_bound_ns;
    if (betterPlan(lower, best)) best = std::move(lower);
  }
  return best;
}

}  // namespace ebbtide::scheduler
