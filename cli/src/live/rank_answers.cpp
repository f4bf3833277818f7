#include "live/rank_answers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "checked_json.hpp"
#include "ebbtide/metrics/refusals.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

int exitCodeOf(const RankAnswer& answer) {
  if (answer.problem.empty()) return kFeasible;
  switch (answer.status) {
    case 0:
    case 503:
    case 504:
      return kNoRun;
    case 400:
      return kBadInput;
    case 409:
      return integerAt(answer.document, {"smallest_feasible_budget_bytes"}) ? kInfeasible
                                                                            : kRefused;
    default:
      // A node says of a rank that it did not answer, or what came cannot be read.
      return answer.status < 300 ? kNoRun : kRefused;
  }
}

// A command at the problem's end stays last, to be pasted: the sentence before has the code.
std::size_t codeAt(const std::string& problem) {
  const std::size_t command = problem.rfind(": ebbtide ");
  const std::size_t sentence =
      command == std::string::npos ? command : problem.rfind(". ", command);
  return std::min(sentence, problem.size());
}

}  // namespace

std::string problemOf(const RankAnswer& answer) {
  const std::string code = textAt(answer.document, {"code"});
  if (answer.problem.empty() || !metrics::isCode(code)) return answer.problem;
  const std::size_t at = codeAt(answer.problem);
  return fmt::format("{} [{}]{}", answer.problem.substr(0, at), code, answer.problem.substr(at));
}

int exitCodeOf(const std::vector<RankAnswer>& answers) {
  for (const RankAnswer& answer : answers) {
    if (const int code = exitCodeOf(answer); code != kFeasible) return code;
  }
  return answers.empty() ? kNoRun : kFeasible;
}

nlohmann::json toJson(const std::string& job, const std::vector<RankAnswer>& answers) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankAnswer& answer : answers) {
    nlohmann::json row = answer.document.is_object() ? answer.document : nlohmann::json::object();
    row["rank"] = answer.rank < 0 ? nlohmann::json() : nlohmann::json(answer.rank);
    if (!answer.where.empty()) row["endpoint"] = answer.where;
    if (!answer.problem.empty()) row["error"] = answer.problem;
    ranks.push_back(std::move(row));
  }
  return {{"job_id", job.empty() ? nlohmann::json() : nlohmann::json(job)},
          {"ranks", std::move(ranks)}};
}

void printNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) fmt::print(stderr, "ebbtide: {}\n", note);
}

int print(const RunningJob& job, const std::vector<RankAnswer>& answers, bool json,
          const std::function<std::string(const RankAnswer&)>& line) {
  printNotes(job.notes());
  if (json) {
    // ASCII alone: nothing in it can be an escape sequence.
    fmt::print("{}\n", toJson(job.id(), answers).dump(1, ' ', true));
  }
  for (const RankAnswer& answer : answers) {
    if (!answer.problem.empty()) {
      fmt::print(stderr, "ebbtide: {}: {}\n", answer.name(), problemOf(answer));
    } else if (!json) {
      fmt::print("{}: {}\n", answer.name(), line(answer));
    }
  }
  if (answers.empty()) fmt::print(stderr, "ebbtide: no rank answered\n");
  return exitCodeOf(answers);
}

}  // namespace ebbtide::cli
