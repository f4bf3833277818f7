#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "fit/fit_result.hpp"
#include "fit/fit_runs.hpp"
#include "fit/fit_verdict.hpp"
#include "fit/value_search.hpp"
#include "given_seconds.hpp"
#include "given_text.hpp"
#include "terminal_text.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

using scheduler::RankBudgets;

constexpr std::size_t kTableRows = 6;

struct Arguments {
  FitRuns::Asked asked;
  std::string values;
  double planning_seconds = 2.5;  // of a training
};

std::string whyNoStep(const RecordedRun& run) {
  const bool ended = std::all_of(run.reports.begin(), run.reports.end(),
                                 [](const RunReport& report) { return report.ended; });
  if (!run.reports.empty() && ended) {
    return "no training step was seen, so nothing can be told: no backward pass ran. A step is "
           "seen where parameters that require gradients are used, and a backward pass follows";
  }
  if (run.loadedTheModule()) {
    return "no training step was seen, so nothing can be told: no backward pass ran, or the "
           "program ended by os._exit() within its first steps, or its report could not be "
           "written. Its output has more: add --keep FOLDER";
  }
  return noTorchSeen("training step");
}

bool knowsItsNeed(const RunReport& report) {
  return report.budget.smallest_feasible_bytes.value_or(0) > 0 &&
         report.budget.needed_bytes.value_or(0) > 0;
}

// "": it was measured.
std::string problemOf(const RecordedRun& run) {
  if (run.failed()) return run.ended();
  if (run.stepsOfAll() == 0) return whyNoStep(run);
  const bool all = std::all_of(run.reports.begin(), run.reports.end(), knowsItsNeed);
  return all ? "" : "no step could be recorded, so nothing can be told: the run's output has why";
}

class Fit {
 public:
  Fit(const Arguments& arguments, const Interrupts& interrupts)
      : arguments_(arguments),
        interrupts_(interrupts),
        name_(arguments.asked.budget.empty() ? "EBBTIDE_BUDGET" : "--budget"),
        runs_(arguments.asked, interrupts) {
    if (runs_.budget().empty()) return;
    budgets_ = RankBudgets::parse(name_, runs_.budget());
    budgets_->refuseFewBytes(name_);
    if (budgets_->namesStages()) throw reject("fit does not know stages: name ranks");
    if (budgets_->isNone()) budgets_.reset();
  }

  int ofOne() {
    const FitResult result = resultOf(arguments_.asked.command, std::nullopt);
    if (interrupts_.signal() != 0) return kFailure;  // which is raised again
    if (arguments_.asked.json) {
      printJson(result.problem.empty()
                    ? result.toJson()
                    : nlohmann::json{{"fits", nullptr}, {"text", result.problem}});
    } else if (result.problem.empty()) {
      fmt::print("{}", result.text());
    }
    if (!result.problem.empty()) return kFailure;
    return result.fits.value_or(true) ? kFeasible : kInfeasible;
  }

  int ofValues(ValueSearch search) {
    if (search.isRange() && !budgets_) {
      throw std::invalid_argument("--values " + arguments_.values +
                                  ": a range is searched for the largest value that fits a "
                                  "budget. Add --budget 80%, or write a list: --values 8,16");
    }
    if (budgets_ && budgets_->isOfSteps()) {
      throw reject(
          "each value would have a budget of its own. With --values write a size, or a "
          "percentage of the memory: 80%");
    }
    FitOfValues all;
    std::int64_t budget_bytes = 0;
    while (const auto value = search.next(budget_bytes)) {
      const FitResult result = resultOf(withValue(arguments_.asked.command, *value), value);
      if (interrupts_.signal() != 0) return kFailure;
      const RunReport& report = result.report;
      const bool known = result.problem.empty();
      if (search.isRange() && known && !result.fits)
        throw reject("no rank of the command has this budget, so nothing ends the range");
      if (known && result.budget) {
        all.budget = result.budget;
        budget_bytes = result.budget->bytes;
      }
      search.note({.value = *value,
                   .fits = known && result.fits.value_or(true),
                   .needed_bytes = known ? report.budget.margins.budgetWithRoomFor(
                                               report.budget.needed_bytes.value_or(0))
                                         : 0});
      all.results.push_back(result);
    }
    return tell(std::move(all), search);
  }

 private:
  std::invalid_argument reject(const std::string& why) const {
    return std::invalid_argument(name_ + "=" + forTerminal(runs_.budget()) + ": " + why);
  }

  int tell(FitOfValues all, const ValueSearch& search) const {
    if (all.budget) all.largest = search.largest();
    arguments_.asked.json ? printJson(all.toJson()) : fmt::print("{}", all.text());
    const bool any = std::any_of(all.results.begin(), all.results.end(),
                                 [](const FitResult& one) { return one.problem.empty(); });
    if (!any) return kFailure;
    return all.budget && !all.largest ? kInfeasible : kFeasible;
  }

  FitResult resultOf(const std::vector<std::string>& command, std::optional<std::int64_t> value) {
    const std::string of = value ? std::to_string(*value) : "";
    RecordedRun run = runs_.measure(command, of);
    FitResult result;
    result.value = value;
    if (interrupts_.signal() != 0) return result;
    result.problem = problemOf(run);
    if (!result.problem.empty()) {
      tellProblem(result, run);
      return result;
    }
    run.reports = reportsOfLaterSteps(run);
    result.report = *run.neediest();
    result.ranks = run.reports.size();
    if (budgets_) tellOfNobody(*run.neediest());
    if (budgets_ && !boundsNobody(run.reports, *budgets_)) judge(result, run, command, of);
    if (goesOn(result) && !value) trySmaller(result, run.reports);
    if (goesOn(result)) addCosts(result, run);
    return result;
  }

  bool goesOn(const FitResult& result) const {
    return interrupts_.signal() == 0 && result.problem.empty();
  }

  // As a training says once.
  void tellOfNobody(const RunReport& report) {
    if (std::exchange(told_of_nobody_, true)) return;
    for (const std::string& entry : budgets_->forNoRankOf(static_cast<int>(report.world_size))) {
      fmt::print(stderr,
                 "ebbtide: {}: {} is for nothing that is there: the command has {} rank{}\n", name_,
                 forTerminal(entry), report.world_size, report.world_size == 1 ? "" : "s");
    }
  }

  void judge(FitResult& result, const RecordedRun& run, const std::vector<std::string>& command,
             const std::string& of) {
    const FitVerdict verdict = judgeFit(run.reports, *budgets_, name_);
    result.fits = verdict == FitVerdict::kUnsure ? holdsBudget(result, run, command, of)
                                                 : verdict == FitVerdict::kFits;
    if (!result.problem.empty()) return;
    // What is told is of the rank that decides, though another one may need more.
    const RunReport* const decides = rankOf(verdict, run.reports, *budgets_, name_);
    if (!*result.fits && decides != nullptr) result.report = *decides;
    result.budget =
        FitBudget{runs_.budget(), budgetOf(result.report, *budgets_, name_).value_or(0)};
  }

  // Trained to see. A run that leaves no report, or crashes, is no word on the budget: it is a
  // problem.
  bool holdsBudget(FitResult& result, const RecordedRun& measured,
                   const std::vector<std::string>& command, const std::string& of) const {
    const RecordedRun run =
        runs_.inBudget(command, of.empty() ? "budget" : "budget " + of,
                       budgetToTry(measured.reports, *budgets_, name_, runs_.budget()));
    if (interrupts_.signal() != 0) return false;
    if (run.reports.empty() || run.failedForOtherReasons()) {
      result.problem = run.failed() ? run.ended() : whyNoStep(run);
      tellProblem(result, run);
    }
    return run.heldItsBudget();
  }

  // What a first step needs is counted too high at times, and what a training names with it. What
  // has failed is not tried again.
  void trySmaller(FitResult& result, const std::vector<RunReport>& later) const {
    const auto bytes = smallerBudgetToTry(later, result.smallestBudgetBytes().value_or(0));
    const bool failed = bytes && !result.fits.value_or(true) && result.budget->bytes >= *bytes;
    if (!bytes || failed) return;
    if (runs_.inBudget(arguments_.asked.command, "smaller budget", budgetToTry(*bytes))
            .heldItsBudget())
      result.held_bytes = *bytes;
  }

  void tellProblem(const FitResult& result, const RecordedRun& run) const {
    printProblem(run, run.failed(), result.problem, runs_.folder());
  }

  // Of a value only what the budget costs: there may be many values.
  void addCosts(FitResult& result, const RecordedRun& run) const {
    const auto step = largestStep(run, result.report.rank);
    if (!step) return;
    const auto& margins = result.report.budget.margins;
    const std::int64_t smallest = result.smallestBudgetBytes().value_or(0);
    std::vector<std::int64_t> budgets;
    if (!result.value) {
      budgets = tableBudgets(smallest, keepingBudget(step->plain_peak_bytes, margins), kTableRows);
    }
    const bool at_budget = result.fits.value_or(false) && result.budget->bytes > 0;
    if (at_budget) budgets.push_back(result.budget->bytes);
    const CostSearch search{
        .planner = runs_.planner(),
        .planning_time = std::chrono::milliseconds(std::lround(arguments_.planning_seconds * 1000)),
        .threads = std::max(1U, std::thread::hardware_concurrency())};
    const auto costs = costsOf(*step, margins, budgets, search);
    for (const BudgetCost& cost : costs) {
      if (at_budget && cost.budget_bytes == result.budget->bytes) result.at_budget = cost;
    }
    if (!result.value) result.table = costs;
  }

  const Arguments& arguments_;
  const Interrupts& interrupts_;
  const std::string name_;  // of the budget, in messages
  FitRuns runs_;
  std::optional<RankBudgets> budgets_;
  bool told_of_nobody_ = false;
};

int fit(const Arguments& arguments, const Interrupts& interrupts) {
  std::optional<ValueSearch> values;
  if (!arguments.values.empty()) {
    values = ValueSearch::parse(arguments.values);
    withValue(arguments.asked.command, 1);  // is there a place for it?
  }
  Fit runs(arguments, interrupts);
  return values ? runs.ofValues(*values) : runs.ofOne();
}

}  // namespace

void addFit(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  FitRuns::Asked& asked = arguments->asked;
  auto* verb = app.add_subcommand(
      "fit",
      "Measure the first steps of a script: its smallest budget, and what budgets cost in time");
  addCommand(*verb, asked);
  addBudget(*verb, asked,
            "does it fit? As EBBTIDE_BUDGET takes it (default: that variable, or none)");
  verb->add_option("--values", arguments->values,
                   "each takes the place of {} in COMMAND: 8,16,32 runs all of the list; 8..64 "
                   "searches the range for the largest that fits the budget")
      ->check(givenText())
      ->type_name("LIST|RANGE");
  verb->add_option("--steps", asked.steps, "training steps after which a run ends")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  verb->add_option("--deadline", arguments->planning_seconds,
                   "how long to look for a better plan, for each budget")
      ->check(givenSeconds(0, 1e6))
      ->capture_default_str()
      ->type_name("SECONDS");
  addRunOptions(*verb, asked);
  verb->callback([arguments, &exit_code] {
    exit_code = interruptibly(arguments->asked, [&](const Interrupts& interrupts) {
      return fit(*arguments, interrupts);
    });
  });
}

}  // namespace ebbtide::cli
