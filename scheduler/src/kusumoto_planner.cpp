#include "kusumoto_planner.hpp"

#include <algorithm>
#include <cmath>

#include "planner_options.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr LowerSetLimits kLimits{.memory_ranges = 160, .nearest = 24, .narrow = 48};
constexpr int kBudgetsTried = 10;

// Section 3: values of U_k are cached, all others recomputed for their segment's backward. The last
// segment's backward comes at once, so what its ops made may stay instead (`keep_last`).
Retention canonicalStrategy(const Graph& graph, const RetentionSearch& search,
                            const LowerSetPlan& plan, bool keep_last) {
  Retention retention = search.builder().keepAll();
  const std::vector<bool> saved = retention.keep;
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const OpId producer = graph.values[id].producer;
    if (producer == kNone || static_cast<std::size_t>(producer) >= search.forwardOps()) continue;
    retention.keep[id] = plan.cached[producer] || (keep_last && plan.last[producer] && saved[id]);
  }
  return retention;
}

}  // namespace

LowerSetProblem lowerSetProblem(const Graph& graph, const RetentionSearch& search) {
  const std::size_t nodes = search.forwardOps();
  LowerSetProblem problem;
  problem.time.resize(nodes);
  problem.memory.assign(nodes, 0);
  problem.next.resize(nodes);
  for (std::size_t id = 0; id < nodes; ++id) {
    const Op& op = graph.ops[id];
    // What may not be run again is never recomputed and costs no time.
    problem.time[id] = op.rerunnable ? op.duration_ns : 0;
    for (ValueId output : op.outputs) {
      const Value& value = graph.values[output];
      const bool needed = search.builder().lastNeed(output) >= static_cast<OpId>(nodes);
      // The bytes of an overwritten epoch are the next epoch's.
      if (needed && !value.pinned && value.overwritten_by == kNone) {
        problem.memory[id] += value.bytes;
      }
    }
    for (ValueId input : op.inputs) {
      const OpId producer = graph.values[input].producer;
      if (producer != kNone && !graph.values[input].pinned) {
        problem.next[producer].push_back(static_cast<std::int32_t>(id));
      }
    }
  }
  for (auto& next : problem.next) {
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
  }
  return problem;
}

PlannerInfo KusumotoPlanner::info() const {
  if (goal_ == LowerSetGoal::kLeastTime) {
    return {"kusumoto-approx-time", "kusumoto2019 section 4.3",
            "Least recompute time among canonical strategies over pruned lower sets."};
  }
  return {"kusumoto-approx-memory", "kusumoto2019 section 4.4",
          "Coarse canonical strategies, whose real peak is low; at most one more forward pass."};
}

ScoredRetention KusumotoPlanner::construct(RetentionSearch& search, const Graph& graph,
                                           LowerSetGoal goal) {
  ScoredRetention best = search.score(search.builder().keepAll());
  if (search.feasible(best) || search.forwardOps() == 0) return best;
  const LowerSetProblem problem = lowerSetProblem(graph, search);
  const LowerSetSolver solver(problem, kLimits);
  // Does the canonical strategy for an internal budget meet the real one?
  const auto attempt = [&](std::int64_t internal) {
    const LowerSetPlan plan = solver.solve(internal, goal);
    if (!plan.feasible) return false;
    bool fits = false;
    for (bool keep_last : {false, true}) {
      ScoredRetention scored = search.score(canonicalStrategy(graph, search, plan, keep_last));
      fits = fits || search.feasible(scored);
      if (search.better(scored, best)) best = std::move(scored);
    }
    return fits;
  };
  const std::int64_t least = solver.smallestBudget();
  attempt(least);
  std::int64_t low = least, high = solver.largestPeak();
  for (int i = 0; i < kBudgetsTried && high > low && !search.late(); ++i) {
    if (goal == LowerSetGoal::kLeastTime) {  // more budget: less time, more real memory
      const std::int64_t middle = low + (high - low + 1) / 2;
      if (attempt(middle)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    } else {  // no order to rely on: evenly in the logarithm
      const double ratio =
          static_cast<double>(high) / static_cast<double>(std::max<Bytes>(least, 1));
      attempt(static_cast<std::int64_t>(static_cast<double>(std::max<Bytes>(least, 1)) *
                                        std::pow(ratio, (i + 1.0) / kBudgetsTried)));
    }
  }
  return best;
}

PlanResult KusumotoPlanner::plan(const Graph& graph, Bytes budget_bytes,
                                 const PlannerOptions& options) const {
  rejectUnknownOptions(options, {});
  RetentionSearch search(graph, budget_bytes, options);
  return search.result(construct(search, graph, goal_), info().name);
}

}  // namespace ebbtide::scheduler
