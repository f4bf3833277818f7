#include "runtime/budget/rank_budget.hpp"

#include <utility>

#include "ebbtide/scheduler/budget_form.hpp"
#include "ebbtide/scheduler/byte_size.hpp"
#include "job/job_versions.hpp"

namespace ebbtide::plugin {

bool RankBudget::noteStep(const scheduler::Trace& trace) {
  const bool other = of_stage_ && of_stage_->noteStep(trace) && !asked_;
  due_ = due_ || other;
  return other;
}

RankBudget::Found RankBudget::noteFound(const std::vector<std::int32_t>& stages) {
  if (!of_stage_) return Found::kNothingNew;
  const std::optional<std::string> before = of_stage_->size();
  if (!of_stage_->noteFound(stages)) return Found::kNothingNew;
  due_ = true;
  return asked_ || of_stage_->size() == before ? Found::kSameBudget : Found::kOtherBudget;
}

bool RankBudget::waitedLongEnough(std::int64_t steps, bool told, Time now) {
  if (!of_stage_ || !isOpen() || of_stage_->known()) return false;
  if (!wait_until_ && (told || steps >= kStepsUntilTold)) wait_until_ = now + kStageTime;
  return wait_until_ && now > *wait_until_ && giveUp();
}

bool RankBudget::giveUp() {
  if (!of_stage_ || of_stage_->known()) return false;
  return !std::exchange(given_up_, true);
}

void RankBudget::becomeRank(std::optional<StageBudget> of_stage, std::string own) {
  of_stage_.reset();
  if (of_stage) of_stage_.emplace(std::move(*of_stage));
  own_ = std::move(own);
  given_up_ = false;
  wait_until_.reset();
  due_ = true;
}

// A rank that withdrew from a plan of the job's reports again, if its bytes are the same too.
std::optional<std::string> RankBudget::takeDue() {
  if (!std::exchange(due_, false)) return std::nullopt;
  asked_due_ = false;
  ++number_;
  return written();
}

bool RankBudget::holdsAny() const {
  const std::string size = written();
  return !size.empty() && !scheduler::BudgetForm::parse("EBBTIDE_BUDGET", size).isNone();
}

std::string RankBudget::written() const {
  if (paused_) return "";
  if (asked_) return *asked_;
  return of_stage_ ? of_stage_->size().value_or("") : own_;
}

void RankBudget::ask(std::string size) {
  if (!asked_due_) asked_before_ = asked_;  // else what was asked before has never held
  asked_ = std::move(size);
  due_ = asked_due_ = true;
}

void RankBudget::pause(bool paused) {
  if (std::exchange(paused_, paused) == paused) return;
  due_ = true;
  resumed_ = !paused;
}

bool RankBudget::pauseAgain() {
  if (!resumed_) return false;
  pause(true);
  return true;
}

bool RankBudget::takeBack() {
  if (!asked_) return false;
  asked_ = std::exchange(asked_before_, std::nullopt);
  return due_ = true;
}

bool RankBudget::isNew(Message message) {
  return !std::exchange(said_[index(message)], true);
}

std::string budgetText(std::optional<std::int64_t> bytes) {
  return bytes ? scheduler::formatBytes(*bytes) : "none";
}

std::string stagesText(const std::vector<std::int32_t>& stages) {
  return numbersText("stage", stages);
}

}  // namespace ebbtide::plugin
