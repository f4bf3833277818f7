// What a Session does for a budget that is its stage's: it learns the stage, and takes the budget
// when the next step begins.
#include <fmt/format.h>

#include <algorithm>

#include "session.hpp"

namespace ebbtide::plugin {
namespace {

using std::chrono::steady_clock;

constexpr auto kStageTime = std::chrono::seconds(180);  // more than a round of the job's plan takes
constexpr std::int64_t kStepsUntilTold = 20;            // of a rank that comes to no plan

std::string stagesText(const std::vector<std::int32_t>& stages) {
  std::string text = stages.size() == 1 ? "stage" : "stages";
  for (std::size_t i = 0; i < stages.size(); ++i)
    text += fmt::format("{}{}", i > 0 ? ", " : " ", stages[i]);
  return text;
}

std::string budgetText(std::optional<std::int64_t> budget) {
  return budget ? formatBytes(*budget) : "none";
}

}  // namespace

std::optional<std::int64_t> Session::budget() const noexcept {
  const std::int64_t bytes = memory_->ledger().budgetBytes();
  return measures_only_ || bytes == allocator::kUnlimited ? std::nullopt : std::optional(bytes);
}

// Nothing is decided by the budget in force: it may be another one soon.
bool Session::awaitsStage() const {
  return stage_changed_ || (stage_budget_ && !stage_budget_->known() && !stage_given_up_);
}

void Session::learnStage(const StepSummary& summary) {
  if (!stage_budget_) return;
  if (summary.recorded && stage_budget_->noteStep(summary.trace)) {
    stage_changed_ = true;
    told_job_ = advised_ = false;  // by what it was before
  }
  if (!awaitsStage() || stage_budget_->known()) return;
  const auto now = steady_clock::now();
  if (!stage_wait_until_ && (told_job_ || steps_ >= kStepsUntilTold))
    stage_wait_until_ = now + kStageTime;
  if (stage_wait_until_ && now > *stage_wait_until_)
    giveUpStage("the other ranks of its pipeline told nothing");
}

bool Session::foundStages(const std::vector<std::int32_t>& stages) {
  const std::lock_guard lock(mutex_);
  if (!stage_budget_) return false;
  const std::optional<std::string> before = stage_budget_->size();
  if (stage_budget_->noteFound(stages)) {
    stage_changed_ = true;
    advised_ = false;
  }
  const bool changed = stage_budget_->size() != before;
  if (changed) told_job_ = false;  // it withdraws; else what it told holds
  return changed;
}

void Session::giveUpStage(const std::string& why) {
  if (std::exchange(stage_given_up_, true)) return;
  warn(fmt::format("the stage of this rank is not known ({}): its budget is that of default, {}",
                   why, budgetText(budget())));
  floor_checks_ = 0;
  steps_to_record_ = std::max(steps_to_record_, 2);
}

// Between two steps: what one of them holds is gone.
void Session::takeBudget() {
  if (!std::exchange(stage_changed_, false)) return;
  const std::optional<std::int64_t> before = budget();
  const std::string size = stage_budget_->size().value_or("");
  if (set_budget_) {
    set_budget_(size);
  } else {
    const std::int64_t bytes = size.empty()
                                   ? allocator::kUnlimited
                                   : parseSize("EBBTIDE_BUDGET", size, config_.local_world_size);
    // First: of two threads the other one may allocate meanwhile.
    if (!trainsElsewhere() && bytes != before.value_or(allocator::kUnlimited))
      memory_->allowOverrun(true);
    memory_->setBudget(bytes);
  }
  measures_only_ = size.empty();
  const std::optional<std::int64_t> now = budget();
  metrics_.setBudgetBytes(now.value_or(allocator::kUnlimited));
  const std::string stages = stagesText(stage_budget_->stages());
  say(now ? fmt::format("this rank runs {}: its budget is {} from step {} on, before {}", stages,
                        budgetText(now), steps_ + 1, budgetText(before))
          : fmt::format("this rank runs {}, for which EBBTIDE_BUDGET has no entry: it is measured "
                        "only",
                        stages));
  ++budget_changes_;  // a rank that withdrew reports again, if its bytes are the same too
  floor_checks_ = 0;
  steps_to_record_ = std::max(steps_to_record_, 3);
  for (auto& [signature, known] : programs_) known.asked = known.said_plan = false;
  if (now != before)
    beginAnew(now.value_or(allocator::kUnlimited) < before.value_or(allocator::kUnlimited));
}

// As a run that begins: its first step may go over an impossible budget, and is judged by it.
void Session::beginAnew(bool shrank) {
  smallest_feasible_bytes_ = smallest_without_spill_bytes_ = 0;
  violations_before_budget_ = memory_->statistics().budget_violations;
  allocated_peak_bytes_ = mapped_peak_bytes_ = 0;
  stop_by_.reset();
  told_job_ = advised_ = false;
  said_fits_ = said_infeasible_ = said_spills_ = said_short_ = false;
  for (auto& [signature, known] : programs_) {
    known.later_plan = nullptr;
    if (shrank) known.plan = nullptr;  // made for more: it would go over
  }
}

}  // namespace ebbtide::plugin
