// RunningJobs: the jobs that `status` and `top` show, one or all of this machine.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "live/running_job.hpp"

namespace ebbtide::cli {

// What --job means to a verb that shows all jobs.
inline constexpr const char* kOnlyJob = "only the job of this id (default: all of this machine)";

struct JobAnswers {
  std::string job;  // its id; empty with endpoints
  std::vector<RankAnswer> answers;
};

class RunningJobs {
 public:
  // Those that --job or --endpoint name, else all of this machine with a live rank. Throws as
  // RunningJob::find() does, NoRun where nothing runs or a named rank is in no job.
  static RunningJobs find(const JobInput& input);

  // Sockets of live jobs that nobody listens on.
  std::vector<std::string> notes() const;
  // "job port-29500", "3 jobs", "node7:9464"; for columns.
  std::string title() const;

  // By job, then by rank. Of all jobs of this machine ones that came since are among them, those
  // that ended in order are not.
  std::vector<JobAnswers> statuses(std::chrono::milliseconds limit);
  std::vector<JobAnswers> statuses() { return statuses(input_.timeout()); }

  // Questions that are under way when a stop is asked for end then.
  void setStop(std::stop_token stop) { stop_ = std::move(stop); }

  // One job's JSON is that of rank_answers.hpp. Without --job and --endpoint:
  // {"jobs": [one job's, …]}, and where one job runs its keys beside "jobs".
  nlohmann::json json(const std::vector<JobAnswers>& jobs) const;

 private:
  explicit RunningJobs(const JobInput& input) : input_(input) {}
  void addNew();
  bool isAll() const { return input_.job.empty() && input_.endpoints.empty(); }

  JobInput input_;
  std::vector<RunningJob> jobs_;
  bool found_now_ = true;  // jobs_ is of find(), and was not asked yet
  std::stop_token stop_;
};

// As that of one job's ranks, over all jobs.
int exitCodeOf(const std::vector<JobAnswers>& jobs);

}  // namespace ebbtide::cli
