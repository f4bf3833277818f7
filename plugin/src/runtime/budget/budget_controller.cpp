#include "runtime/budget/budget_controller.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "config/available_memory.hpp"

namespace ebbtide::plugin {
namespace {

std::optional<StageBudget> stageBudgetOf(const Config& config) {
  if (!config.budget.by_stage) return std::nullopt;
  return StageBudget(*config.budget.by_stage, config.rank);
}

// `from_step`: it holds from then on.
std::string measuredText(const MeasuredBudget& budget, const std::string& who,
                         std::int64_t from_step) {
  const std::string form = budget.wanted()->text();
  const std::string whose = who.empty() ? "the" : who + ": its";
  if (!budget.known())
    return fmt::format("{} budget is {}: measured first, in force once the base is settled", whose,
                       form);
  const scheduler::BudgetFacts& facts = budget.facts();
  const std::string others = facts.others_bytes == 0
                                 ? ""
                                 : fmt::format(", in use outside of PyTorch's allocator {}",
                                               formatBytes(facts.others_bytes));
  return fmt::format("{} budget {} is {} from step {} on: plain peak {}, activations {}{}", whose,
                     form, formatBytes(budget.bytes()), from_step,
                     formatBytes(*facts.plain_peak_bytes), formatBytes(*facts.activation_bytes),
                     others);
}

}  // namespace

BudgetController::BudgetController(JudgedRun run)
    : run_(std::move(run)),
      budget_(stageBudgetOf(*run_.config), run_.config->budget.text),
      check_(run_.config, run_.warn) {
  if (run_.config->budget.form.isOfSteps()) measured_.want(run_.config->budget.form);
}

// -----------------------------------------------------------------------------------------------
// which rank it is

void BudgetController::becomeRank(const Held&) {
  budget_.becomeRank(stageBudgetOf(*run_.config), run_.config->budget.text);
}

bool BudgetController::awaitRank(const Held& held, bool awaits) {
  const bool before = budget_.awaitsRank();
  budget_.awaitRank(awaits && run_.config->budgetNeedsPlace());
  if (!awaits && before) {
    verdict_.checkAgain(held);
    run_.to_record.atLeast(2);
  }
  return before;
}

void BudgetController::takeAtOnce(const Held&) {
  if (const auto due = budget_.takeDue()) put(*due);
}

void BudgetController::learn(const Held& held, const StepSummary& summary) {
  AdvisedStop& stop = verdict_.refusal().stop(held);
  if (summary.recorded && budget_.noteStep(summary.trace)) stop.withdraw();
  if (budget_.waitedLongEnough(run_.steps, stop.told(), std::chrono::steady_clock::now()))
    sayStageGivenUp(held, "the other ranks of its pipeline told nothing");
}

bool BudgetController::noteStages(const Held& held, const std::vector<std::int32_t>& stages) {
  const RankBudget::Found found = budget_.noteFound(stages);
  AdvisedStop& stop = verdict_.refusal().stop(held);
  if (found == RankBudget::Found::kSameBudget) stop.awaitNextRound();
  if (found == RankBudget::Found::kOtherBudget) stop.withdraw();
  return found == RankBudget::Found::kOtherBudget;
}

void BudgetController::giveStageUp(const Held& held, const std::string& why) {
  if (budget_.giveUp()) sayStageGivenUp(held, why);
}

void BudgetController::sayStageGivenUp(const Held& held, const std::string& why) {
  run_.warn(
      fmt::format("the stage of this rank is not known ({}): its budget is that of default, {}",
                  why, budgetText(bytes())));
  verdict_.checkAgain(held);
  run_.to_record.atLeast(2);
}

// -----------------------------------------------------------------------------------------------
// what steps take

void BudgetController::measure(const Held& held, Bytes base_bytes, bool trains) try {
  const bool before = measured_.settled();
  if (trains) measured_.noteBegin(run_.steps, base_bytes);
  if (!before && measured_.settled()) verdict_.noteBaseSettled(held);
  if (!measured_.awaits() || budget_.isPaused()) return;
  if (measured_.settled()) measured_.know(stepFacts(run_.taken.recorded().all()));
  if (!measured_.awaits()) return budget_.takeAgain();
  run_.to_record.atLeast(1);
  if (measured_.isLate()) {
    run_.warn(
        fmt::format("no step was recorded so far, so the bytes of {} are not known, and this rank "
                    "has no budget. Write one in bytes: EBBTIDE_BUDGET=30GiB",
                    measured_.wanted()->text()));
  }
} catch (const std::exception& error) {
  measured_.want(std::nullopt);
  run_.warn(std::string("the steps could not be measured, so there is no budget: ") + error.what());
}

scheduler::BudgetFacts BudgetController::stepFacts(
    const std::vector<RecordedStep>& recorded) const {
  scheduler::BudgetFacts facts = factsOf(recorded);
  facts.others_bytes = run_.trained.othersBytes();
  return facts;
}

// A budget of what a step takes in bytes, "" until they are known.
std::string BudgetController::inForce(const std::string& written) {
  if (written.empty()) {
    if (!budget_.isPaused()) measured_.want(std::nullopt);
    return written;
  }
  const auto form = scheduler::BudgetForm::parse("EBBTIDE_BUDGET", written);
  measured_.want(form.isOfSteps() ? std::optional(form) : std::nullopt);
  if (!form.isOfSteps()) return written;
  return measured_.known() ? std::to_string(measured_.bytes()) : "";
}

void BudgetController::checkMemory() {
  const auto budget_bytes = hostBytes();
  if (!budget_bytes) return;
  const Config& config = *run_.config;
  using Kind = scheduler::BudgetForm::Kind;
  const bool is_auto =
      config.budget.form.kind == Kind::kAvailable && budget_bytes == config.budget.bytes;
  // A rank may take more than its part. The program's own memory since `auto` was resolved is no
  // reason to advise `auto`.
  const Bytes part = is_auto ? allocator::kUnlimited : run_.trained.reachableBytes();
  const Bytes left = availableMemoryBytes();
  const Bytes of_others = left - left / std::max(1, config.local_world_size);
  check_.checkMemory(*budget_bytes, part > allocator::kUnlimited - of_others ? allocator::kUnlimited
                                                                             : part + of_others);
}

// -----------------------------------------------------------------------------------------------
// what is due is taken

void BudgetController::put(const std::string& written) {
  run_.trained.setBudget(inForce(written));
  run_.metrics.noteBudget(bytes());
}

std::optional<std::string> BudgetController::take(const Held& held) {
  const std::optional<std::string> due = budget_.takeDue();
  if (!due) return std::nullopt;
  std::optional<Bytes> before = bytes();
  put(*due);
  const std::optional<Bytes> now = bytes();
  if (takePause(held, before)) return std::nullopt;
  const bool goes_on = before_pause_.has_value();
  if (goes_on) before = std::exchange(before_pause_, std::nullopt);
  if (goes_on) {
    run_.say(
        fmt::format("it goes on with step {}: the budget is {}", run_.steps + 1, budgetText(now)));
  } else if (now != before || (budget_.isOfStage() && !budget_.isAsked())) {
    sayTaken(before);  // not of a pause that was lifted before it began
  }
  if (now != before) checkMemory();
  if (goes_on || now != before) open_steps_.changeBudget();
  if (goes_on) verdict_.countFrom(held, run_.trained.memory().statistics().budget_violations);
  verdict_.checkAgain(held);
  run_.to_record.atLeast(3);
  if (goes_on && now == before) {  // plans hold again, too
    countFromNowOn();
    run_.figures.forgetPeaks();
    return std::nullopt;
  }
  for (auto& [signature, known] : run_.programs)
    known.planning.asked = known.planning.said_plan = false;
  const bool shrank = now.value_or(allocator::kUnlimited) < before.value_or(allocator::kUnlimited);
  if (now != before) {
    verdict_.beginAnew(held);
    budget_.beginAnew();
    run_.programs.beginAnew(/*drop=*/shrank || !now);
  }
  countFromNowOn();
  return due;
}

// Plans stay for when it goes on. True: it is paused.
bool BudgetController::takePause(const Held& held, std::optional<Bytes> before) {
  const bool was = paused_.exchange(budget_.isPaused());
  if (!paused_) return false;
  if (!was) {
    before_pause_ = before;
    verdict_.refusal().stop(held).standDown();
    run_.say(fmt::format("paused: as PyTorch alone from step {} on", run_.steps + 1));
  }
  return true;
}

void BudgetController::judgeAgain(const Held& held) {
  verdict_.checkAgain(held);
  budget_.sayAgain();
}

// What happened while steps of an older budget ran, or beside those, is no word on this one.
void BudgetController::endStep(const Held& held, OpenSteps::Number step) {
  if (!open_steps_.end(step)) return;
  verdict_.judgeFromNowOn(held);
  countFromNowOn();
}

// Steps, that tell whether the budget is held.
void BudgetController::countFromNowOn() {
  run_.taken.judgeFrom(run_.steps, run_.trained.memory().budgetTracker().overruns());
}

// One that was asked for is taken back.
void BudgetController::noteOver(const Held& held) {
  const bool counts = open_steps_.settled() && !budget_.isOpen() && !paused_;
  if (counts && budget_.isAsked()) verdict_.takeBack(held, "a step went over it");
}

// -----------------------------------------------------------------------------------------------
// what is said

std::string BudgetController::modeName(const Held&) const {
  return paused_ || budget_.isPaused() ? "paused" : bytes() ? "budget" : "measure";
}

void BudgetController::sayTaken(std::optional<Bytes> before) const {
  const std::optional<Bytes> now = bytes();
  const bool by_stage = budget_.isOfStage() && !budget_.isAsked();
  if (measured_.wanted())
    return run_.say(measuredText(measured_,
                                 by_stage ? "this rank runs " + stagesText(budget_.stages()) : "",
                                 run_.steps + 1));
  if (!by_stage) {
    run_.say(fmt::format("the budget is {} from step {} on, before {}", budgetText(now),
                         run_.steps + 1, budgetText(before)));
    return;
  }
  const std::string stages = stagesText(budget_.stages());
  run_.say(now ? fmt::format("this rank runs {}: its budget is {} from step {} on, before {}",
                             stages, budgetText(now), run_.steps + 1, budgetText(before))
               : fmt::format("this rank runs {}, for which EBBTIDE_BUDGET has no entry: it is "
                             "measured only",
                             stages));
}

std::string BudgetController::inWords(const Held&, RankDiscovery::Stage stage) const {
  const Config& config = *run_.config;
  if (const auto now = bytes()) {
    std::string text = "budget " + formatBytes(*now);
    if (run_.trained.isElsewhere()) text += " of the GPU";
    if (budget_.isOfStage()) return text + " until its stage is known";
    const bool is_auto = config.budget.form.kind == scheduler::BudgetForm::Kind::kAvailable;
    if (run_.trained.isElsewhere() || !config.budget.form.isOfMemory()) return text;
    if (config.local_size_told || stage == RankDiscovery::Stage::kKnown)
      return is_auto ? text + " (auto)" : text;
    if (stage == RankDiscovery::Stage::kAsking)
      return text + " until it is known which ranks share this machine";
    return text + (is_auto ? " (auto, as the only rank here)"
                           : fmt::format(" ({} of what one process has)", config.budget.text));
  }
  if (measured_.awaits() && !budget_.isOfStage())
    return fmt::format("measuring until the bytes of {} are known", config.budget.text);
  if (budget_.isOfStage()) return "measuring until its stage is known";
  return config.budget.gpu_text.empty()
             ? "measuring, nothing is dropped"
             : "budget of each GPU " + config.budget.gpu_text + ", nothing is dropped";
}

}  // namespace ebbtide::plugin
