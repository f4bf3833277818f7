#include "planners/staged/moccasin_planner.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "base/search_end.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "model/planner_options.hpp"
#include "planners/staged/moccasin_local_planner.hpp"
#include "planners/staged/moccasin_model.hpp"
#include "search/plan_choice.hpp"
#include "solver/solver_worker.hpp"

namespace ebbtide::scheduler {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kDefaultMoves = 200'000;      // of the local search: some 0.3 s
constexpr std::int64_t kDefaultSolverWork = 20'000;  // thousandths of deterministic seconds
constexpr std::int64_t kMostIntervals = 20;
constexpr std::int64_t kLocalIntervals = 6;
constexpr std::size_t kMostOps = 5'000;  // larger programs take longer to state than to search
constexpr unsigned kMostThreads = 64;
constexpr auto kClosing = std::chrono::milliseconds(100);  // from the solver's limit to ours
// Of the time until the deadline: what each local search, and then phase 1, may take.
constexpr double kStartShare = 0.15, kFirstPhaseShare = 0.5;

bool timed(const PlannerOptions& options) {
  return options.deadline != kNoDeadline;
}

Clock::time_point within(const PlannerOptions& options, double share) {
  if (!timed(options)) return options.deadline;
  const Clock::time_point now = Clock::now();
  if (now >= options.deadline) return options.deadline;
  return now + std::chrono::duration_cast<Clock::duration>((options.deadline - now) * share);
}

MoccasinSettings settingsFrom(const Graph& graph, const PlannerOptions& options) {
  MoccasinSettings settings;
  const std::int64_t intervals = integerOption(options, "intervals", 2);
  if (intervals < 1 || intervals > kMostIntervals) {
    throw std::invalid_argument("planner option 'intervals' is not within 1 to " +
                                std::to_string(kMostIntervals));
  }
  settings.intervals = static_cast<int>(intervals);
  const bool free = choiceOption(options, "order", {"input", "free"}, "input") == "free";
  settings.free_order = free && graph.any_order;
  settings.reservoir =
      choiceOption(options, "reads", {"clauses", "reservoir"}, "clauses") == "reservoir";
  return settings;
}

// CP-SAT's bounds are whole numbers, exact as doubles up to 2^53; of larger ones nothing is taken.
std::int64_t wholeBound(double bound) {
  constexpr double kMostExact = 0x1p53;
  return bound > 0 && bound <= kMostExact ? static_cast<std::int64_t>(bound) : 0;
}

struct Start {
  PlanResult best;
  PlanResult inside;  // from a search with as many intervals as the program allows
};

// The two phases (moccasin2023, section 2.4), each from the best schedule of the program so far.
class Phases {
 public:
  Phases(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options, Start start)
      : graph_(graph),
        budget_(budget_bytes),
        options_(options),
        settings_(settingsFrom(graph, options)),
        wheel_(findSolverWheel(options)),
        best_(std::move(start.best)),
        inside_(std::move(start.inside)) {}

  PlanResult run() {
    if (graph_.ops.size() <= kMostOps) {
      if (!inside_.feasible) seekPeak();
      if (inside_.feasible) seekTime();
    }
    best_.recompute_bound_ns =
        std::max(best_.recompute_bound_ns, recomputeLowerBound(graph_, budget_));
    return std::move(best_);
  }

 private:
  void seekPeak() {
    const Bytes least = std::max(budget_, peakLowerBound(graph_));
    if (inside_.peak_bytes <= least) return;
    const MoccasinGoal goal{least, inside_.peak_bytes, std::numeric_limits<Nanoseconds>::max()};
    solve(goal, within(options_, budget_ > 0 ? kFirstPhaseShare : 1.0));
  }

  void seekTime() {
    const MoccasinGoal goal{budget_, budget_, inside_.recompute_ns};
    const bool settled = solve(goal, options_.deadline);
    if (!proofIsGeneral()) return;
    best_.optimal = best_.optimal || settled;
    best_.recompute_bound_ns =
        settled ? best_.recompute_ns : std::min(best_.recompute_ns, least_objective_);
  }

  // A schedule that takes less time than this one replays each op a limited number of times; are
  // those runs all in the model, and does the model cost no schedule more than the simulator does?
  bool proofIsGeneral() const {
    if (!settings_.free_order || graph_.lazy_outputs) return false;
    return std::all_of(graph_.ops.begin(), graph_.ops.end(), [&](const Op& op) {
      if (op.outputs.size() > 1 || op.waits) return false;  // no replays before a wait
      if (!op.rerunnable) return true;
      return op.duration_ns > 0 &&
             (best_.recompute_ns - 1) / op.duration_ns <= settings_.intervals - 1;
    });
  }

  CpSatParameters parameters(Clock::time_point deadline) const {
    CpSatParameters parameters;
    parameters.workers = std::clamp(options_.threads, 1u, kMostThreads);
    parameters.seed = options_.seed;
    parameters.presolve = choiceOption(options_, "presolve", {"on", "off"}, "on") == "on";
    if (timed(options_)) {
      const std::chrono::duration<double> left = deadline - kClosing - Clock::now();
      parameters.seconds = std::max(left.count(), 0.01);
    } else {
      parameters.interleave = true;
      parameters.deterministic_seconds =
          1e-3 * static_cast<double>(integerOption(options_, "solver-work", kDefaultSolverWork));
    }
    return parameters;
  }

  // True: nothing is better than the best schedule now, in the model. Sets least_objective_.
  bool solve(const MoccasinGoal& goal, Clock::time_point deadline) {
    if (SearchEnd(options_).reached() || Clock::now() + kClosing >= deadline) return false;
    MoccasinModel model(graph_, settings_, goal);
    model.hint(inside_.schedule);
    least_objective_ = 0;
    SolverWorker worker(wheel_);
    const SolverAnswer answer = worker.solve(
        {Solver::kCpSat, model.wire(), parameters(deadline).wire(), options_.cancelled},
        deadline - kClosing / 2, [&](const std::string& bytes) { consider(model, bytes); });
    answer.rejectRefusal();
    const auto last = consider(model, answer.bytes);
    // Infeasible: nothing takes so little time.
    const bool settled =
        last == CpSatResponse::Status::kOptimal || last == CpSatResponse::Status::kInfeasible;
    return answer.end == SolverAnswer::End::kFinished && settled;
  }

  CpSatResponse::Status consider(const MoccasinModel& model, const std::string& bytes) {
    const auto response = CpSatResponse::fromWire(bytes);
    if (!response) return CpSatResponse::Status::kUnknown;
    least_objective_ = std::max(least_objective_, wholeBound(response->bound));
    if (response->values.size() != model.variables()) return response->status;
    Schedule schedule = model.schedule(response->values);
    if (validate(graph_, schedule)) return CpSatResponse::Status::kUnknown;
    PlanResult found = judgedPlan(graph_, budget_, std::move(schedule), "moccasin");
    if (betterPlan(found, best_)) best_ = found;
    if (betterPlan(found, inside_)) inside_ = std::move(found);
    return response->status;
  }

  const Graph& graph_;
  Bytes budget_;
  const PlannerOptions& options_;
  MoccasinSettings settings_;
  SolverWheel wheel_;
  PlanResult best_, inside_;
  std::int64_t least_objective_ = 0;  // of the program solved last: nothing is below
};

PlanResult localSearch(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options,
                       std::int64_t intervals) {
  const bool plain = choiceOption(options, "start", {"local", "plain"}, "local") == "plain";
  PlannerOptions local;
  local.seed = options.seed;
  local.threads = options.threads;
  local.deadline = within(options, kStartShare);
  local.named["intervals"] = std::to_string(intervals);
  local.named["work"] = std::to_string(plain ? 0 : integerOption(options, "work", kDefaultMoves));
  return MoccasinLocalPlanner().plan(graph, budget_bytes, local);
}

// More intervals may do better than the program can: then that is a bound on what counts.
Start startOf(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options) {
  const int intervals = settingsFrom(graph, options).intervals;
  Start start;
  start.inside = localSearch(graph, budget_bytes, options, intervals);
  start.best = start.inside;
  if (intervals >= kLocalIntervals || start.best.optimal) return start;
  PlanResult more = localSearch(graph, budget_bytes, options, kLocalIntervals);
  if (betterPlan(more, start.best)) start.best = std::move(more);
  return start;
}

}  // namespace

PlannerInfo MoccasinPlanner::info() const {
  return {"moccasin",
          "moccasin2023 section 2, two phases (2.4), by CP-SAT",
          "Never worse than its start; what CP-SAT proves is proven of schedules with that order "
          "and so many intervals.",
          {{"order", "input|free",
            "first runs in the graph's order, or (graphs of any order) in the best one"},
           {"intervals", "[2] 1 to 20", "runs of an op, the first one included (C)"},
           {"reads", "clauses|reservoir", "how the program says that inputs are there"},
           {"presolve", "on|off", "CP-SAT's own; off: large graphs begin to improve sooner"},
           {"start", "local|plain", "what moccasin-local finds, or its start"},
           {"work", std::to_string(kDefaultMoves), "moves of moccasin-local, by each thread"},
           {"solver-work", std::to_string(kDefaultSolverWork),
            "thousandths of CP-SAT's deterministic seconds; with a deadline: until then"},
           wheelOption()}};
}

PlanResult MoccasinPlanner::plan(const Graph& graph, Bytes budget_bytes,
                                 const PlannerOptions& options) const {
  rejectUnknownOptions(options, info());
  findSolverWheel(options);
  Start start = startOf(graph, budget_bytes, options);
  if (start.best.optimal) return std::move(start.best);
  return Phases(graph, budget_bytes, options, std::move(start)).run();
}

}  // namespace ebbtide::scheduler
