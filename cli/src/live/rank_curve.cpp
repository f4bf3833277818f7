#include "live/rank_curve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "checked_json.hpp"
#include "live/rank_answers.hpp"
#include "shown_values.hpp"
#include "terminal_text.hpp"
#include "text_table.hpp"

namespace ebbtide::cli {
namespace {

constexpr std::chrono::milliseconds kAgain{200};
constexpr std::size_t kMostPoints = 1000;  // a server of ours sends 9
constexpr std::size_t kLongestReason = 1000;
constexpr int kCannot = 409, kTooLate = 504;  // as HTTP has them

bool isComputing(const RankAnswer& answer) {
  return answer.problem.empty() && textAt(answer.document, {"state"}) == "computing";
}

std::size_t pointsOf(const RankAnswer& answer) {
  const nlohmann::json& points = at(answer.document, {"points"});
  return points.is_array() ? std::min(points.size(), kMostPoints) : 0;
}

void noteWhyNone(RankAnswer& answer) {
  if (!answer.problem.empty() || pointsOf(answer) > 0) return;
  const bool is_late = isComputing(answer);
  const std::string why = textAt(answer.document, {"why"}).substr(0, kLongestReason);
  answer.status = is_late ? kTooLate : kCannot;
  answer.problem = is_late       ? "the curve is still being computed: ask again, or --wait longer"
                   : why.empty() ? "no curve"
                                 : "no curve: " + forTerminal(why);
}

// Where the rank is: among the budgets, without one by what it needs.
struct Present {
  std::int64_t at = 0;
  std::vector<std::string> row;
};

std::optional<Present> presentOf(const nlohmann::json& tree) {
  if (!at(tree, {"present"}).is_object()) return std::nullopt;
  const auto budget = integerAt(tree, {"present", "budget_bytes"});
  const auto peak = integerAt(tree, {"present", "peak_bytes"});
  const auto more = numberAt(tree, {"present", "overhead_ratio"});
  return Present{
      .at = budget.value_or(peak.value_or(0)),
      .row = {shownBudget(budget), shownBytes(peak), more ? shownShare(more) : "",
              shownSeconds(numberAt(tree, {"present", "step_seconds"})), "now, as measured"}};
}

}  // namespace

std::string describeCurve(const RankAnswer& answer) {
  const nlohmann::json& tree = answer.document;
  const std::size_t count = pointsOf(answer);
  TextTable table({{"budget"}, {"peak"}, {"more time"}, {"step time"}, {"", false}});
  std::optional<Present> present = presentOf(tree);
  for (std::size_t i = 0; i < count; ++i) {
    const nlohmann::json& point = tree["points"][i];
    const auto budget = integerAt(point, {"budget_bytes"});
    if (present && budget && present->at <= *budget)
      table.add(std::exchange(present, std::nullopt)->row);
    table.add({shownBytes(budget), shownBytes(integerAt(point, {"predicted_peak_bytes"})),
               shownShare(numberAt(point, {"overhead_ratio"})),
               shownSeconds(numberAt(point, {"step_seconds"})), ""});
  }
  if (present) table.add(present->row);
  std::string text = fmt::format("predicted for {} budgets{}\n{}", count,
                                 isComputing(answer) ? ", and still computing" : "", table.text());
  text.pop_back();
  return text;
}

std::vector<RankAnswer> askCurves(RunningJob& job, std::chrono::milliseconds wait) {
  const auto end = std::chrono::steady_clock::now() + wait;
  std::vector<RankAnswer> answers = job.get("/v1/curve");
  while (std::any_of(answers.begin(), answers.end(), isComputing) &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kAgain);
    answers = job.get("/v1/curve");
  }
  for (RankAnswer& answer : answers) noteWhyNone(answer);
  return answers;
}

int showCurves(const JobInput& input, std::chrono::milliseconds wait, bool json) {
  RunningJob job = RunningJob::find(input);
  return print(job, askCurves(job, wait), json, describeCurve);
}

}  // namespace ebbtide::cli
