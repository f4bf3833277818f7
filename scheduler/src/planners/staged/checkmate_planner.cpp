#include "planners/staged/checkmate_planner.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "ebbtide/scheduler/simulator.hpp"
#include "judge/time_relaxation.hpp"
#include "model/planner_options.hpp"
#include "planners/staged/checkmate_model.hpp"
#include "planners/staged/checkmate_rounding.hpp"
#include "planners/staged/moccasin_local_planner.hpp"
#include "search/plan_choice.hpp"
#include "solver/highs.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::int64_t kStartMoves = 30'000;  // of moccasin-local: a tenth of a second
constexpr std::int64_t kSweep = 0;            // the option `threshold`: all of them
constexpr int kSweepSteps = 40;

std::int64_t thresholdOption(const PlannerOptions& options) {
  const auto named = options.named.find("threshold");
  if (named == options.named.end() || named->second == "sweep") return kSweep;
  const std::int64_t percent = integerOption(options, "threshold", 0);
  if (percent >= 1 && percent <= 99) return percent;
  throw std::invalid_argument("planner option 'threshold' is not sweep, or 1 to 99");
}

class Checkmate {
 public:
  Checkmate(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options,
            SolverWheel wheel, PlanChoice& choice)
      : graph_(graph),
        budget_(budget_bytes),
        options_(options),
        highs_(std::move(wheel), options),
        choice_(choice),
        runs_(graph) {}

  bool tooLarge() const { return size() > CheckmatePlanner::kMostSize; }
  std::size_t size() const { return CheckmateModel::size(graph_, runs_); }  // coefficients
  bool solved() const { return solved_; }

  void branchAndBound() {
    PlannerOptions start_options = options_;
    start_options.named = {{"work", std::to_string(integerOption(options_, "work", kStartMoves))}};
    const Schedule start = MoccasinLocalPlanner().plan(graph_, budget_, start_options).schedule;
    choice_.consider(start);
    if (tooLarge() || choice_.late()) return;
    if (budget_ >= peakLowerBound(graph_) && solve(CheckmateModel::Goal::kTime, start)) return;
    if (!choice_.feasible() && !choice_.late()) solve(CheckmateModel::Goal::kPeak, start);
  }

  void relaxAndRound(std::int64_t threshold_percent) {
    if (tooLarge()) return;
    const bool may_fit = budget_ >= peakLowerBound(graph_);
    if (may_fit && round(CheckmateModel::Goal::kTime, threshold_percent)) return;
    if (!choice_.late()) round(CheckmateModel::Goal::kPeak, threshold_percent);
  }

  // Is what it found the least time of all schedules, not of those in stages alone?
  bool provenOptimal(Nanoseconds found_ns) const {
    if (tooLarge()) return false;
    if (found_ns <= recomputeLowerBound(graph_, budget_)) return true;
    if (!proven_ || TimeRelaxation::size(graph_) > TimeRelaxation::kMostSize) return false;
    const TimeRelaxation relaxation(graph_, budget_, true);
    const HighsSolution bound = highs_.solve(relaxation.program);
    if (bound.status != HighsSolution::Status::kOptimal) return false;
    // Whole costs are told apart from the next by far more than HiGHS's tolerance.
    const double margin = relaxation.exact_costs ? 1e-3 : 0;
    return found_ns <= relaxation.timeOf(bound.bound - margin);
  }

 private:
  // False: no schedule in stages meets the budget.
  bool solve(CheckmateModel::Goal goal, const Schedule& start) {
    solved_ = true;
    const CheckmateModel model(graph_, runs_, budget_, goal, true);
    const HighsSolution best =
        highs_.solve(model.program(), startFrom(model, start),
                     [&](const HighsSolution& incumbent) { consider(model, incumbent); });
    consider(model, best);
    proven_ = goal == CheckmateModel::Goal::kTime && best.status == HighsSolution::Status::kOptimal;
    return best.status != HighsSolution::Status::kInfeasible;
  }

  std::vector<double> startFrom(const CheckmateModel& model, const Schedule& start) const {
    std::vector<double> solution = model.solutionOf(runs_.replaysOf(start));
    if (!model.program().satisfied(solution, 1e-6)) solution.clear();
    return solution;
  }

  void consider(const CheckmateModel& model, const HighsSolution& solution) {
    if (solution.values.size() != model.program().columns()) return;
    choice_.consider(runs_.schedule(model.replays(solution.values)));
  }

  // False: no schedule in stages meets the budget.
  bool round(CheckmateModel::Goal goal, std::int64_t threshold_percent) {
    solved_ = true;
    const CheckmateModel model(graph_, runs_, budget_, goal, false);
    const HighsSolution relaxed = highs_.solve(model.program());
    const bool solved = relaxed.values.size() == model.program().columns();
    for (int step = 1; solved && step < kSweepSteps; ++step) {
      const double threshold = threshold_percent == kSweep
                                   ? static_cast<double>(step) / kSweepSteps
                                   : static_cast<double>(threshold_percent) / 100;
      choice_.consider(
          runs_.schedule(completedReplays(graph_, runs_, [&](OpId stage, ValueId value) {
            return model.retained(relaxed.values, stage, value) >= threshold;
          })));
      if (threshold_percent != kSweep) break;
    }
    return relaxed.status != HighsSolution::Status::kInfeasible;
  }

  const Graph& graph_;
  Bytes budget_;
  const PlannerOptions& options_;
  Highs highs_;
  PlanChoice& choice_;
  StagedRuns runs_;
  bool solved_ = false;  // HiGHS was asked
  bool proven_ = false;  // the best is the least time of all schedules in stages
};

}  // namespace

PlannerInfo CheckmatePlanner::info() const {
  const PlannerOption wheel = wheelOption();
  if (method_ == Method::kMilp) {
    return {"checkmate-milp",
            "Jain et al. 2020, section 4, as a baseline of moccasin2023",
            "The least time in stages if HiGHS ends its search; never worse than its start "
            "by moccasin-local, which is all on more than some 250 ops.",
            {{"work", std::to_string(kStartMoves), "moves of moccasin-local for the start"},
             Highs::workOption(),
             wheel}};
  }
  return {
      "checkmate-lp",
      "Jain et al. 2020, section 5, as a baseline of moccasin2023",
      "None: the relaxation, rounded, may exceed the budget, and is then infeasible. Up to some "
      "250 ops.",
      {wheel,
       {"threshold", "[sweep] 1 to 99",
        "percent of a retention that is rounded up; sweep: the best of 39, the paper has 50"}}};
}

PlanResult CheckmatePlanner::plan(const Graph& graph, Bytes budget_bytes,
                                  const PlannerOptions& options) const {
  rejectUnknownOptions(options, info());
  const std::int64_t threshold = thresholdOption(options);
  PlanChoice choice(graph, budget_bytes, options, info().name);
  if (choice.feasible()) return choice.take();
  SolverWheel wheel = findSolverWheel(options);
  if (choice.late()) return choice.take();
  Checkmate checkmate(graph, budget_bytes, options, std::move(wheel), choice);
  method_ == Method::kMilp ? checkmate.branchAndBound() : checkmate.relaxAndRound(threshold);
  PlanResult result = choice.take();
  result.optimal = result.feasible && checkmate.provenOptimal(result.recompute_ns);
  if (!checkmate.solved()) {
    result.planner = method_ == Method::kMilp ? "moccasin-local" : "keep-everything";
    result.note = checkmate.tooLarge()
                      ? "the step is too large for " + info().name + ": " +
                            std::to_string(checkmate.size()) + " coefficients, at most " +
                            std::to_string(kMostSize)
                      : "the deadline came before " + info().name + " began to solve";
  }
  return result;
}

}  // namespace ebbtide::scheduler
