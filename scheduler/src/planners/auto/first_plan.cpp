#include "planners/auto/first_plan.hpp"

#include <utility>

#include "base/search_end.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "planners/chain/chain_join.hpp"
#include "planners/greedy/greedy_planner.hpp"
#include "search/plan_choice.hpp"
#include "search/retention_search.hpp"

namespace ebbtide::scheduler {
namespace {

// Greedy's construction takes some 50 ms for so many ops, and more than in proportion for more.
constexpr std::size_t kBothOps = 400;
// Beyond, each of its rounds takes milliseconds: the time is over before one fits.
constexpr std::size_t kMostGreedyOps = 5000;

}  // namespace

PlanResult firstPlan(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options) {
  PlanResult best = judgedPlan(graph, budget_bytes, keepEverything(graph), "keep-everything");
  if (best.feasible || graph.any_order || !graph.hasBackward()) return best;
  const auto consider = [&](PlanResult result) {
    if (betterPlan(result, best) && !validate(graph, result.schedule)) best = std::move(result);
  };
  const SearchEnd end(options);
  if (!end.reached()) consider(joinBlocks(graph, budget_bytes, options));
  const std::size_t most = best.feasible ? kBothOps : kMostGreedyOps;
  if (end.reached() || graph.ops.size() > most) return best;
  RetentionSearch search(graph, budget_bytes, options);
  consider(search.result(GreedyPlanner::construct(search), "greedy"));
  return best;
}

}  // namespace ebbtide::scheduler
