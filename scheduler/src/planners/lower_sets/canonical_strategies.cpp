#include "planners/lower_sets/canonical_strategies.hpp"

#include <cmath>
#include <utility>

#include "ebbtide/scheduler/simulator.hpp"
#include "search/plan_choice.hpp"

namespace ebbtide::scheduler {
namespace {

// Budgets of the program that are tried: by bisection for least time, and over the whole range.
constexpr int kBisections = 12, kLevels = 24, kTimeLevel = 6;

class Search {
 public:
  Search(const Graph& graph, const LowerSetSolver& solver, Bytes budget_bytes,
         const CanonicalChoice& choice, const std::function<bool()>& late)
      : graph_(graph), solver_(solver), budget_(budget_bytes), choice_(choice), late_(late) {
    take(keepEverything(graph));
  }

  PlanResult run() {
    if (late_() || (best_.feasible && choice_.drops == DropTime::kAfterReader)) return best_;
    if (choice_.drops == DropTime::kSegmentEnd) {
      best_ = {};
      if (!attempt(budget_, choice_.goal) && !best_.feasible) {
        attempt(solver_.smallestBudget(), choice_.goal);
      }
      if (best_.schedule.steps.empty()) take(keepEverything(graph_));  // the deadline is past
      return best_;
    }
    const Bytes least = solver_.smallestBudget();
    if (choice_.goal == LowerSetGoal::kLeastTime) bisect(least);
    // The paper's memory-centric strategies, where time-centric ones take too much.
    if (!best_.feasible || choice_.goal == LowerSetGoal::kMostTime) sweep(least);
    return best_;
  }

 private:
  // More of the program's budget: less time, and as a rule a higher peak.
  void bisect(Bytes least) {
    Bytes low = std::max(least, budget_);
    Bytes high = solver_.largestPeak();
    attempt(low, LowerSetGoal::kLeastTime);
    for (int i = 0; i < kBisections && low < high && !late_(); ++i) {
      const Bytes middle = low + (high - low) / 2;
      (attempt(middle, LowerSetGoal::kLeastTime) ? low : high) = middle;
    }
  }

  // Evenly in the logarithm: the peak follows no order there.
  void sweep(Bytes least) {
    const double from = static_cast<double>(std::max<Bytes>(least, 1));
    const double ratio = static_cast<double>(solver_.largestPeak()) / from;
    for (int level = 0; level <= kLevels && !late_(); ++level) {
      const double grown = from * std::pow(ratio, static_cast<double>(level) / kLevels);
      const Bytes budget = level == 0 ? least : static_cast<Bytes>(grown);
      attempt(budget, LowerSetGoal::kMostTime);
      // These take most of the time to find and are seldom the smallest.
      if (choice_.goal == LowerSetGoal::kLeastTime && level % kTimeLevel == 0) {
        attempt(budget, LowerSetGoal::kLeastTime);
      }
    }
  }

  // Does the strategy meet the real budget? It becomes the best if it is.
  bool attempt(Bytes program_budget, LowerSetGoal goal) {
    const bool time = goal == LowerSetGoal::kLeastTime;
    const LowerSetPlan plan = solver_.solve(program_budget, goal, time);
    return plan.feasible && take(canonicalSchedule(graph_, plan, choice_.drops));
  }

  bool take(Schedule schedule) {
    PlanResult result = judgedPlan(graph_, budget_, std::move(schedule), {});
    const bool fits = result.feasible;
    if (best_.schedule.steps.empty() || betterPlan(result, best_)) best_ = std::move(result);
    return fits;
  }

  const Graph& graph_;
  const LowerSetSolver& solver_;
  Bytes budget_;
  CanonicalChoice choice_;
  const std::function<bool()>& late_;
  PlanResult best_;
};

}  // namespace

PlanResult planCanonical(const Graph& graph, const LowerSetSolver& solver, Bytes budget_bytes,
                         const CanonicalChoice& choice, const std::function<bool()>& late) {
  return Search(graph, solver, budget_bytes, choice, late).run();
}

}  // namespace ebbtide::scheduler
