#include "planners/lower_sets/kusumoto_planner.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "base/search_end.hpp"
#include "ebbtide/scheduler/most_amount.hpp"
#include "model/planner_options.hpp"
#include "planners/lower_sets/canonical_model.hpp"
#include "planners/lower_sets/canonical_strategies.hpp"
#include "search/plan_choice.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr int kBudgetsTried = 10;

// Sets of nodes are stored as bits; above this many nodes they would take more than 200 MB.
constexpr std::size_t kMostNodes = 30'000;

// Lower sets above which the exact program is given the pruned ones instead: on a paper's graph,
// and on each phase of a recorded step, where the program is solved for many budgets.
constexpr std::size_t kMostLowerSets = 6'000, kMostOfPhase = 300;

// States that the approximate program may meet in one pass: up to a second.
constexpr std::size_t kMostWork = 200'000'000;

// Nodes above which not all pairs of lower sets are tried.
constexpr std::size_t kMostUnlimited = 4'000;

// `pruned`: set where all lower sets were asked for, and are too many or took too long to list.
LowerSetSolver makeSolver(const LowerSetProblem& problem, LowerSetScope scope, std::size_t most,
                          const LowerSetLimits& limits, bool& pruned) {
  if (scope == LowerSetScope::kAll) {
    if (auto family = allLowerSets(problem, most, limits.late)) {
      return LowerSetSolver(problem, std::move(*family),
                            {.time_slots = limits.time_slots, .late = limits.late});
    }
    pruned = true;
  }
  return LowerSetSolver(problem, limits);
}

std::string tooManyLowerSets(const std::string& what, std::size_t most) {
  return what + " more than the " + std::to_string(most) +
         " lower sets that kusumoto-exact lists, or the deadline came first";
}

// Phases of equal structure (microbatches) and the solver that serves them all.
struct PhaseGroup {
  LowerSetProblem problem;  // times summed over the phases
  std::vector<ForwardPhase> phases;
  std::unique_ptr<LowerSetSolver> solver;
  bool pruned = false;  // the exact program was asked for, and has too many lower sets
  std::int64_t least = 0, largest = 0;  // internal budgets
};

std::deque<PhaseGroup> groupPhases(const Graph& graph, RetentionSearch& search,
                                   LowerSetScope scope) {
  std::deque<PhaseGroup> groups;  // a deque: solvers refer to their problems
  for (const ForwardPhase& phase : search.phases()) {
    // Larger sums of bytes could leave 63 bits in formula (2).
    if (phase.size() > kMostNodes || graph.totalValueBytes() >= kMostAmount) continue;
    LowerSetProblem problem = lowerSetProblem(graph, search, phase);
    const auto alike = [&](const PhaseGroup& group) {
      return group.problem.memory == problem.memory && group.problem.next == problem.next;
    };
    const auto found = std::find_if(groups.begin(), groups.end(), alike);
    if (found == groups.end()) {
      groups.push_back({std::move(problem), {phase}, nullptr});
      continue;
    }
    found->phases.push_back(phase);
    for (std::size_t v = 0; v < problem.time.size(); ++v) found->problem.time[v] += problem.time[v];
  }
  for (PhaseGroup& group : groups) {
    const LowerSetLimits limits{.time_slots = 2048,
                                .most_work = 100'000'000,
                                .nearest = 24,
                                .narrow = 48,
                                .late = [&search] { return search.late(); }};
    group.solver = std::make_unique<LowerSetSolver>(
        makeSolver(group.problem, scope, kMostOfPhase, limits, group.pruned));
    group.least = group.solver->smallestBudget();
    group.largest = group.solver->largestPeak();
  }
  return groups;
}

// Section 3: values of U_k are cached, all others recomputed for their segment's backward. The last
// segment's backward comes at once, so what its ops made may stay instead (`keep_last`).
void applyCanonical(const Graph& graph, const PhaseGroup& group, const LowerSetPlan& plan,
                    bool keep_last, Retention& retention) {
  for (const ForwardPhase& phase : group.phases) {
    for (std::size_t node = 0; node < plan.cached.size(); ++node) {
      for (ValueId output : graph.ops[phase.begin + node].outputs) {
        const bool stays =
            keep_last && plan.segment[node] + 1 == plan.segments && retention.keep[output];
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
                                const ForwardPhase& phase) {
  const std::size_t nodes = phase.size();
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
      // What another phase made is a graph input of this one.
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
  PlannerInfo info;
  if (scope_ == LowerSetScope::kAll) {
    info = {"kusumoto-exact", "kusumoto2019 sections 4.2 and 4.4",
            "Paper's model, liveness=off, up to " + std::to_string(kMostLowerSets) +
                " lower sets: the optimum of the canonical strategies. Else no worse than "
                "kusumoto-approx."};
  } else {
    info = {"kusumoto-approx", "kusumoto2019 sections 4.3 and 4.4",
            "Canonical strategies over the pruned lower sets: with liveness=off the best one in "
            "the paper's model; else the best one that was simulated."};
  }
  info.options = {
      {"strategy", "time|memory",
       "least recompute time, or coarse segments, whose real peak is low at no more than one more "
       "forward pass"},
      {"liveness", "on|off",
       "paper's model: values die after their last reader, or at the ends of segments as formula "
       "(2) has it; recorded steps: always on"}};
  return info;
}

struct KusumotoStrategies::Impl {
  const Graph& graph;
  RetentionSearch& search;
  LowerSetScope scope;
  std::optional<std::deque<PhaseGroup>> groups;  // once they are needed
};

KusumotoStrategies::KusumotoStrategies(const Graph& graph, RetentionSearch& search,
                                       LowerSetScope scope)
    : impl_(new Impl{graph, search, scope, std::nullopt}) {}

KusumotoStrategies::~KusumotoStrategies() = default;

bool KusumotoStrategies::allPruned() const {
  return impl_->groups && !impl_->groups->empty() &&
         std::all_of(impl_->groups->begin(), impl_->groups->end(),
                     [](const PhaseGroup& group) { return group.pruned; });
}

bool KusumotoStrategies::attempt(LowerSetGoal goal, double level, ScoredRetention& best) {
  RetentionSearch& search = impl_->search;
  bool fits = false;
  std::vector<LowerSetPlan> plans;
  for (const PhaseGroup& group : *impl_->groups) {
    plans.push_back(group.solver->solve(internalBudget(group, goal, level), goal,
                                        goal == LowerSetGoal::kLeastTime));
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
  if (!impl_->groups) impl_->groups = groupPhases(impl_->graph, search, impl_->scope);
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
  const bool memory = choiceOption(options, "strategy", {"time", "memory"}, "time") == "memory";
  const bool early = choiceOption(options, "liveness", {"on", "off"}, "on") == "on";
  const CanonicalChoice choice{.goal = memory ? LowerSetGoal::kMostTime : LowerSetGoal::kLeastTime,
                               .drops = early ? DropTime::kAfterReader : DropTime::kSegmentEnd};
  const auto problem = canonicalProblem(graph);
  PlanResult result = problem && graph.totalValueBytes() < kMostAmount
                          ? planPaperGraph(graph, *problem, budget_bytes, options, choice)
                          : planStep(graph, budget_bytes, options, choice.goal);
  result.planner = result.note.empty() ? info().name : "kusumoto-approx";
  return result;
}

// A graph of the paper's model. With liveness analysis all lower sets may lead to a worse schedule
// than the pruned ones (footnote 2 of section 5.1), so both are tried.
PlanResult KusumotoPlanner::planPaperGraph(const Graph& graph, const LowerSetProblem& problem,
                                           Bytes budget_bytes, const PlannerOptions& options,
                                           const CanonicalChoice& choice) const {
  const auto late = [end = SearchEnd(options)] { return end.reached(); };
  LowerSetLimits limits{.late = late};
  const auto plan = [&](LowerSetScope scope) {
    bool pruned = false;
    const LowerSetSolver solver = makeSolver(problem, scope, kMostLowerSets, limits, pruned);
    PlanResult result = planCanonical(graph, solver, budget_bytes, choice, late);
    if (pruned) result.note = tooManyLowerSets("the graph has", kMostLowerSets);
    return result;
  };
  if (scope_ == LowerSetScope::kAll && choice.drops == DropTime::kSegmentEnd) return plan(scope_);
  limits.most_work = kMostWork;
  if (problem.time.size() > kMostUnlimited) limits.nearest = limits.narrow = kMostUnlimited / 8;
  PlanResult result = plan(LowerSetScope::kPruned);
  if (scope_ == LowerSetScope::kPruned) return result;
  PlanResult other = plan(LowerSetScope::kAll);
  result.note = other.note;
  return betterPlan(other, result) ? other : result;
}

// A recorded step: its program order stays, and the canonical strategies say what to keep.
PlanResult KusumotoPlanner::planStep(const Graph& graph, Bytes budget_bytes,
                                     const PlannerOptions& options, LowerSetGoal goal) const {
  RetentionSearch search(graph, budget_bytes, options);
  std::string note;
  ScoredRetention best = KusumotoStrategies(graph, search).construct(goal);
  if (scope_ == LowerSetScope::kAll && !search.late()) {
    KusumotoStrategies strategies(graph, search, scope_);
    ScoredRetention other = strategies.construct(goal);
    if (search.better(other, best)) best = std::move(other);
    if (strategies.allPruned()) note = tooManyLowerSets("each phase of the step has", kMostOfPhase);
  }
  PlanResult result = search.result(best, info().name);
  result.note = note;
  return result;
}

}  // namespace ebbtide::scheduler
