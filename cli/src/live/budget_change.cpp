#include "live/budget_change.hpp"

#include <fmt/format.h>

#include "checked_json.hpp"
#include "ebbtide/scheduler/budget_form.hpp"
#include "shown_values.hpp"

namespace ebbtide::cli {
namespace {

// Instead of the rank's own words, where it told its smallest budget: what to type, rounded up.
std::string refusal(const RankAnswer& answer, const std::string& size, const std::string& job) {
  const auto least = integerAt(answer.document, {"smallest_feasible_budget_bytes"});
  if (answer.problem.empty() || !least || *least <= 0) return answer.problem;
  constexpr std::int64_t kMiB = 1 << 20;
  std::string there;
  if (!job.empty()) there = " --job " + job;
  if (!answer.where.empty()) there = " --endpoint " + answer.where;
  return fmt::format("{} is too small. Smallest budget now: ebbtide budget {} {}MiB{}", size,
                     answer.rank, *least / kMiB + (*least % kMiB != 0 ? 1 : 0), there);
}

}  // namespace

std::string describeBudget(const RankAnswer& answer) {
  const nlohmann::json& tree = answer.document;
  std::string text =
      fmt::format("budget {} (before: {})", shownBudget(integerAt(tree, {"budget_bytes"})),
                  shownBudget(integerAt(tree, {"before_bytes"})));
  if (const auto step = integerAt(tree, {"from_step"})) {
    text += fmt::format(", from step {} on", *step);
  }
  const auto peak = integerAt(tree, {"predicted_peak_bytes"});
  if (!peak) return text + "; no prediction";
  text += "; predicted: peak " + shownBytes(peak);
  if (const auto more = numberAt(tree, {"overhead_ratio"})) {
    text += ", " + shownShare(*more) + " more time";
  }
  if (const auto seconds = numberAt(tree, {"step_seconds"})) {
    text += ", " + shownSeconds(*seconds) + " a step";
  }
  return text;
}

void checkBudget(const std::string& size) {
  static_cast<void>(scheduler::BudgetForm::parse("SIZE", size));
  scheduler::refuseFewBytes("SIZE", size);
}

std::vector<RankAnswer> changeBudget(RunningJob& job, const std::string& size,
                                     std::chrono::milliseconds limit, bool force) {
  checkBudget(size);
  nlohmann::json body = {{"budget", size}};
  if (force) body["force"] = true;
  std::vector<RankAnswer> answers = job.post("/v1/budget", body, limit);
  for (RankAnswer& answer : answers) answer.problem = refusal(answer, size, job.id());
  return answers;
}

}  // namespace ebbtide::cli
