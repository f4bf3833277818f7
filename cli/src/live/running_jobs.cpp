#include "live/running_jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "live/rank_answers.hpp"
#include "terminal_text.hpp"

namespace ebbtide::cli {

RunningJobs RunningJobs::find(const JobInput& input) {
  RunningJobs found(input);
  if (found.isAll()) {
    JobInput any = input;
    any.ranks.clear();
    found.jobs_ = RunningJob::findAll(any);
  }
  // One job, none, or one that was named: the words are those of the other verbs.
  if (found.jobs_.size() < 2) {
    found.jobs_.clear();
    found.jobs_.push_back(RunningJob::find(input));
    return found;
  }
  if (input.ranks.empty()) return found;
  const std::vector<RunningJob> running = std::exchange(found.jobs_, RunningJob::findAll(input));
  for (const int rank : input.ranks) {
    const bool there = std::any_of(found.jobs_.begin(), found.jobs_.end(),
                                   [&](const RunningJob& job) { return job.isWanted(rank); });
    if (there) continue;
    std::vector<std::string> names;
    for (const RunningJob& job : running) names.push_back(forTerminal(job.id()));
    throw NoRun(fmt::format("no job has a rank {} that runs here; running: {}", rank,
                            fmt::join(names, ", ")));
  }
  return found;
}

std::vector<std::string> RunningJobs::notes() const {
  std::vector<std::string> notes;
  for (const RunningJob& job : jobs_) {
    notes.insert(notes.end(), job.notes().begin(), job.notes().end());
  }
  return notes;
}

std::string RunningJobs::title() const {
  if (jobs_.size() > 1) return fmt::format("{} jobs", jobs_.size());
  if (!jobs_.empty() && !jobs_.front().id().empty()) return "job " + forColumns(jobs_.front().id());
  return input_.endpoints.size() == 1 ? forColumns(input_.endpoints.front())
                                      : fmt::format("{} nodes", input_.endpoints.size());
}

std::vector<JobAnswers> RunningJobs::statuses(std::chrono::milliseconds limit) {
  if (!isAll()) {
    jobs_.front().setStop(stop_);
    return {{.job = jobs_.front().id(), .answers = jobs_.front().statuses(limit)}};
  }
  if (!std::exchange(found_now_, false)) addNew();
  std::vector<std::vector<RankAnswer>> answers = RunningJob::statusesOf(jobs_, limit, stop_);
  std::vector<JobAnswers> told;
  std::vector<RunningJob> left;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    if (answers[i].empty()) continue;  // it ended, and took its sockets with it
    told.push_back({.job = jobs_[i].id(), .answers = std::move(answers[i])});
    left.push_back(std::move(jobs_[i]));
  }
  jobs_ = std::move(left);
  return told;
}

// One whose processes were killed stays, with their sockets: what became of it is to be seen.
void RunningJobs::addNew() {
  for (RunningJob& job : RunningJob::findAll(input_)) {
    const bool known = std::any_of(jobs_.begin(), jobs_.end(),
                                   [&](const RunningJob& other) { return other.id() == job.id(); });
    if (!known) jobs_.push_back(std::move(job));
  }
  std::sort(jobs_.begin(), jobs_.end(),
            [](const RunningJob& a, const RunningJob& b) { return a.id() < b.id(); });
}

nlohmann::json RunningJobs::json(const std::vector<JobAnswers>& jobs) const {
  if (!isAll()) return toJson(jobs.front().job, jobs.front().answers);
  nlohmann::json all = nlohmann::json::array();
  for (const JobAnswers& job : jobs) all.push_back(toJson(job.job, job.answers));
  nlohmann::json document = all.size() == 1 ? all.front() : nlohmann::json::object();
  document["jobs"] = std::move(all);
  return document;
}

int exitCodeOf(const std::vector<JobAnswers>& jobs) {
  std::vector<RankAnswer> answers;
  for (const JobAnswers& job : jobs) {
    answers.insert(answers.end(), job.answers.begin(), job.answers.end());
  }
  return exitCodeOf(answers);
}

}  // namespace ebbtide::cli
