// What a Session does for a budget that is its stage's, or of what a step takes: it learns the one,
// measures the other, and takes the budget when the next step begins.
#include <fmt/format.h>

#include "runtime/session.hpp"

namespace ebbtide::plugin {
namespace {

std::string budgetText(std::optional<std::int64_t> budget) {
  return budget ? formatBytes(*budget) : "none";
}

}  // namespace

void Session::learnStage(const Held& held, const StepSummary& summary) {
  if (summary.recorded && budget_.noteStep(summary.trace)) stop_.withdraw();
  if (budget_.waitedLongEnough(steps_, stop_.told(), std::chrono::steady_clock::now()))
    sayStageGivenUp(held, "the other ranks of its pipeline told nothing");
}

bool Session::foundStages(const std::vector<std::int32_t>& stages) {
  metrics_.setStages(stages);
  const Held held = mutex_.hold();
  stages_ = stages;
  const RankBudget::Found found = budget_.noteFound(stages);
  if (found == RankBudget::Found::kSameBudget) stop_.awaitNextRound();
  if (found == RankBudget::Found::kOtherBudget) stop_.withdraw();
  return found == RankBudget::Found::kOtherBudget;
}

void Session::sayStageGivenUp(const Held&, const std::string& why) {
  warn(fmt::format("the stage of this rank is not known ({}): its budget is that of default, {}",
                   why, budgetText(budget())));
  floor_.checkAgain();
  to_record_.atLeast(2);
}

// A step begins. Where the base is settled, the budget that waits for it is due.
void Session::measureBudget(const Held&, std::int64_t base_bytes, bool trains) try {
  if (trains) measured_.noteBegin(steps_, base_bytes);
  if (!measured_.awaits() || budget_.isPaused()) return;
  if (measured_.settled()) measured_.know(stepFacts(taken_.recorded().all()));
  if (!measured_.awaits()) return budget_.takeAgain();
  to_record_.atLeast(1);
  if (measured_.isLate()) {
    warn(
        fmt::format("no step was recorded so far, so the bytes of {} are not known, and this rank "
                    "has no budget. Write one in bytes: EBBTIDE_BUDGET=30GiB",
                    measured_.wanted()->text()));
  }
} catch (const std::exception& error) {
  measured_.want(std::nullopt);
  warn(std::string("the steps could not be measured, so there is no budget: ") + error.what());
}

scheduler::BudgetFacts Session::stepFacts(const std::vector<RecordedStep>& recorded) const {
  scheduler::BudgetFacts facts = factsOf(recorded);
  facts.others_bytes = trained_.othersBytes();
  return facts;
}

// A budget of what a step takes in bytes, "" until they are known.
std::string Session::inForce(const Held&, const std::string& written) {
  if (written.empty()) {
    if (!budget_.isPaused()) measured_.want(std::nullopt);
    return written;
  }
  const auto form = scheduler::BudgetForm::parse("EBBTIDE_BUDGET", written);
  measured_.want(form.isOfSteps() ? std::optional(form) : std::nullopt);
  if (!form.isOfSteps()) return written;
  return measured_.known() ? std::to_string(measured_.bytes()) : "";
}

// Between two steps: what one of them holds is gone.
void Session::takeBudget(const Held& held) {
  const std::optional<std::string> due = budget_.takeDue();
  if (!due) return;
  std::optional<std::int64_t> before = budget();
  trained_.setBudget(inForce(held, *due));
  const std::optional<std::int64_t> now = budget();
  metrics_.setBudgetBytes(now.value_or(allocator::kUnlimited));
  if (takePause(held, before)) return;
  const bool goes_on = before_pause_.has_value();
  if (goes_on) before = std::exchange(before_pause_, std::nullopt);
  if (goes_on) {
    say(fmt::format("it goes on with step {}: the budget is {}", steps_ + 1, budgetText(now)));
  } else if (now != before || (budget_.isOfStage() && !budget_.isAsked())) {
    sayBudget(held, before);  // not of a pause that was lifted before it began
  }
  if (now != before) budget_check_.checkMemory(hostBudget());
  if (goes_on || now != before) open_steps_.changeBudget();
  if (goes_on) floor_.countFrom(memory().statistics().budget_violations);
  floor_.checkAgain();
  to_record_.atLeast(3);
  if (goes_on && now == before) {  // plans hold again, too
    countFromNowOn(held);
    return figures_.forgetPeaks();
  }
  said_plans_ = 0;
  for (auto& [signature, known] : programs_) known.asked = known.said_plan = false;
  const bool shrank = now.value_or(allocator::kUnlimited) < before.value_or(allocator::kUnlimited);
  if (now != before) beginAnew(held, shrank || !now);
  countFromNowOn(held);
  control_->takePlan(held, *due);
}

// Plans stay for when it goes on. True: it is paused.
bool Session::takePause(const Held&, std::optional<std::int64_t> before) {
  const bool was = paused_.exchange(budget_.isPaused());
  if (!paused_) return false;
  if (!was) {
    before_pause_ = before;
    stop_.standDown();
    say(fmt::format("paused: as PyTorch alone from step {} on", steps_ + 1));
  }
  return true;
}

std::string Session::modeName(const Held&) const {
  return paused_ || budget_.isPaused() ? "paused" : budget() ? "budget" : "measure";
}

void Session::sayBudget(const Held& held, std::optional<std::int64_t> before) const {
  const std::optional<std::int64_t> now = budget();
  const bool by_stage = budget_.isOfStage() && !budget_.isAsked();
  if (measured_.wanted())
    return say(
        measuredText(held, by_stage ? "this rank runs " + stagesText(budget_.stages()) : ""));
  if (!by_stage) {
    say(fmt::format("the budget is {} from step {} on, before {}", budgetText(now), steps_ + 1,
                    budgetText(before)));
    return;
  }
  const std::string stages = stagesText(budget_.stages());
  say(now ? fmt::format("this rank runs {}: its budget is {} from step {} on, before {}", stages,
                        budgetText(now), steps_ + 1, budgetText(before))
          : fmt::format("this rank runs {}, for which EBBTIDE_BUDGET has no entry: it is measured "
                        "only",
                        stages));
}

std::string Session::measuredText(const Held&, const std::string& who) const {
  const std::string form = measured_.wanted()->text();
  const std::string whose = who.empty() ? "the" : who + ": its";
  if (!measured_.known())
    return fmt::format("{} budget is {}: measured first, in force once the base is settled", whose,
                       form);
  const scheduler::BudgetFacts& facts = measured_.facts();
  const std::string others = facts.others_bytes == 0
                                 ? ""
                                 : fmt::format(", in use outside of PyTorch's allocator {}",
                                               formatBytes(facts.others_bytes));
  return fmt::format("{} budget {} is {} from step {} on: plain peak {}, activations {}{}", whose,
                     form, formatBytes(measured_.bytes()), steps_ + 1,
                     formatBytes(*facts.plain_peak_bytes), formatBytes(*facts.activation_bytes),
                     others);
}

// The budget that was asked for while the run went on cannot be held. The one
// before it is due: a run is not ended by a request.
bool Session::takeBudgetBack(const Held&, const std::string& why) {
  const std::optional<std::int64_t> now = budget();
  if (!budget_.takeBack()) return false;
  const std::string spills = trained_.spills().lastError();
  warn(
      fmt::format("the budget of {} that was asked for is too small after all ({}{}): the one "
                  "before it holds again from the next step on",
                  budgetText(now), why, spills.empty() ? "" : "; " + spills));
  return true;
}

// The budget that holds again after a pause cannot be held. The pause is due once
// more: a run is not ended by a request.
bool Session::pauseAgain(const Held&, const std::string& why) {
  const std::optional<std::int64_t> now = budget();
  if (!budget_.pauseAgain()) return false;
  warn(
      fmt::format("after the pause the program needs more than {} ({}); paused again from the next "
                  "step on. Set a larger budget, then resume",
                  budgetText(now), why));
  return true;
}

// What happened while steps of an older budget ran, or beside those, is no word
// on this one.
void Session::judgeFromNowOn(const Held& held) {
  floor_.countFrom(memory().statistics().budget_violations);
  floor_.checkAgain();
  countFromNowOn(held);
  memory().resetPeaks();
  figures_.forgetPeaks();
  to_record_.atLeast(3);
}

void Session::countFromNowOn(const Held&) {
  taken_.judgeFrom(steps_, memory().ledger().overruns());
}

// As a run that begins: its first step may go over an impossible budget, and is judged by it.
void Session::beginAnew(const Held&, bool drop_plans) {
  smallest_without_spill_bytes_ = 0;
  fits_.reset();
  spills_each_step_.clear();
  floor_.beginAnew(memory().statistics().budget_violations);
  figures_.forgetPeaks();
  stop_.goOn();
  refused_base_bytes_ = 0;
  budget_.beginAnew();
  programs_.beginAnew(drop_plans);
}

}  // namespace ebbtide::plugin
