#include "kusumoto_planner.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "planner_options.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr int kBudgetsTried = 10;

// Sets of nodes are stored as bits; above this many nodes they would take more than 100 MB.
constexpr std::size_t kMostNodes = 30'000;

// Phases of equal structure (microbatches) and the solver that serves them all.
struct PhaseGroup {
  LowerSetProblem problem;  // times summed over the phases
  std::vector<RetentionSearch::Phase> phases;
  std::unique_ptr<LowerSetSolver> solver;
  std::int64_t least = 0, largest = 0;  // internal budgets
};

std::deque<PhaseGroup> groupPhases(const Graph& graph, RetentionSearch& search) {
  std::deque<PhaseGroup> groups;  // a deque: solvers refer to their problems
  for (const RetentionSearch::Phase& phase : search.phases()) {
    if (phase.end - phase.begin > kMostNodes) continue;
    LowerSetProblem problem = lowerSetProblem(graph, search, phase);
    const auto alike = [&](const PhaseGroup& group) {
      return group.problem.memory == problem.memory && group.problem.next == problem.next;
    };
    const auto found = std::find_if(groups.begin(), groups.end(), alike);
    if (found == groups.end()) {
      groups.push_back({std::move(problem), {phase}, nullptr, 0, 0});
      continue;
    }
    found->phases.push_back(phase);
    for (std::size_t v = 0; v < problem.time.size(); ++v) found->problem.time[v] += problem.time[v];
  }
  for (PhaseGroup& group : groups) {
    const LowerSetLimits limits{
        .memory_ranges = 160, .nearest = 24, .narrow = 48, .late = [&search] {
          return search.late();
        }};
    group.solver = std::make_unique<LowerSetSolver>(group.problem, limits);
    group.least = group.solver->smallestBudget();
    group.largest = group.solver->largestPeak();
  }
  return groups;
}

// Section 3: values of U_k are cached, all others recomputed for their segment's backward. The last
// segment's backward comes at once, so what its ops made may stay instead (`keep_last`).
void applyCanonical(const Graph& graph, const PhaseGroup& group, const LowerSetPlan& plan,
                    bool keep_last, Retention& retention) {
  for (const RetentionSearch::Phase& phase : group.phases) {
    for (std::size_t node = 0; node < plan.cached.size(); ++node) {
      for (ValueId output : graph.ops[phase.begin + node].outputs) {
        const bool stays = keep_last && plan.last[node] && retention.keep[output];
        retention.keep[output] = plan.cached[node] || stays;
      }
    }
  }
}

// Evenly in bytes for the time-centric goal, in the logarithm for the other.
std::int64_t internalBudget(const PhaseGroup& group, LowerSetGoal goal, double level) {
  const double least = static_cast<double>(std::max<std::int64_t>(group.least, 1));
  const double ratio = static_cast<double>(group.largest) / least;
  const double span = static_cast<double>(group.largest - group.least);
  if (level == 0) return group.least;
  if (goal == LowerSetGoal::kMostTime) {
    return static_cast<std::int64_t>(least * std::pow(ratio, level));
  }
  return group.least + static_cast<std::int64_t>(level * span);
}

}  // namespace

LowerSetProblem lowerSetProblem(const Graph& graph, const RetentionSearch& search,
                                const RetentionSearch::Phase& phase) {
  const std::size_t nodes = phase.end - phase.begin;
  LowerSetProblem problem;
  problem.time.resize(nodes);
  problem.memory.assign(nodes, 0);
  problem.next.resize(nodes);
  for (std::size_t id = 0; id < nodes; ++id) {
    const Op& op = graph.ops[phase.begin + id];
    // What may not be run again is never recomputed and costs no time.
    problem.time[id] = op.rerunnable ? op.duration_ns : 0;
    for (ValueId output : op.outputs) {
      const Value& value = graph.values[output];
      // The bytes of an overwritten epoch are the next epoch's.
      if (search.wantedByEvents(output) && !value.pinned && value.overwritten_by == kNone) {
        problem.memory[id] += value.bytes;
      }
    }
    for (ValueId input : op.inputs) {
      const OpId producer = graph.values[input].producer;
      // What another phase made is a source of this one.
      if (producer == kNone || static_cast<std::size_t>(producer) < phase.begin) continue;
      if (graph.values[input].pinned) continue;
      problem.next[static_cast<std::size_t>(producer) - phase.begin].push_back(
          static_cast<std::int32_t>(id));
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
    return {
        "kusumoto-approx-time", "kusumoto2019 section 4.3",
        "Least recompute time among canonical strategies over pruned lower sets; where none fits, "
        "coarse ones as in section 4.4."};
  }
  return {"kusumoto-approx-memory", "kusumoto2019 section 4.4",
          "Coarse canonical strategies, whose real peak is low; at most one more forward pass."};
}

struct KusumotoStrategies::Impl {
  const Graph& graph;
  RetentionSearch& search;
  std::optional<std::deque<PhaseGroup>> groups;  // once they are needed
};

KusumotoStrategies::KusumotoStrategies(const Graph& graph, RetentionSearch& search)
    : impl_(new Impl{graph, search, std::nullopt}) {}

KusumotoStrategies::~KusumotoStrategies() = default;

bool KusumotoStrategies::attempt(LowerSetGoal goal, double level, ScoredRetention& best) {
  RetentionSearch& search = impl_->search;
  bool fits = false;
  std::vector<LowerSetPlan> plans;
  for (const PhaseGroup& group : *impl_->groups) {
    plans.push_back(group.solver->solve(internalBudget(group, goal, level), goal));
    if (!plans.back().feasible) return false;
  }
  for (bool keep_last : {false, true}) {
    Retention retention = search.builder().keepAll();
    for (std::size_t i = 0; i < plans.size(); ++i) {
      applyCanonical(impl_->graph, (*impl_->groups)[i], plans[i], keep_last, retention);
    }
    ScoredRetention scored = search.score(std::move(retention));
    fits = fits || search.feasible(scored);
    if (search.better(scored, best)) best = std::move(scored);
  }
  return fits;
}

ScoredRetention KusumotoStrategies::construct(LowerSetGoal goal) {
  RetentionSearch& search = impl_->search;
  ScoredRetention best = search.score(search.builder().keepAll());
  if (search.feasible(best) || search.late()) return best;
  if (!impl_->groups) impl_->groups = groupPhases(impl_->graph, search);
  if (impl_->groups->empty()) return best;
  if (goal == LowerSetGoal::kLeastTime) {  // more budget: less time, more real memory
    attempt(goal, 0, best);
    double low = 0, high = 1;
    for (int i = 0; i < kBudgetsTried && !search.late(); ++i) {
      const double middle = (low + high) / 2;
      (attempt(goal, middle, best) ? low : high) = middle;
    }
  }
  if (search.feasible(best)) return best;
  for (int i = 0; i <= kBudgetsTried && !search.late(); ++i) {  // no order to rely on
    attempt(LowerSetGoal::kMostTime, static_cast<double>(i) / kBudgetsTried, best);
  }
  // The paper holds a segment's recomputed values until their events; where that alone is too much,
  // the search recomputes some of them twice.
  return search.feasible(best) ? best : search.shrink(std::move(best));
}

PlanResult KusumotoPlanner::plan(const Graph& graph, Bytes budget_bytes,
                                 const PlannerOptions& options) const {
  rejectUnknownOptions(options, info());
  RetentionSearch search(graph, budget_bytes, options);
  return search.result(KusumotoStrategies(graph, search).construct(goal_), info().name);
}

}  // namespace ebbtide::scheduler
