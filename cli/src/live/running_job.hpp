// RunningJob: the ranks of one job that the arguments name, and questions to them, all at once.
#pragma once

#include <CLI/App.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "live/found_jobs.hpp"
#include "live/http_client.hpp"

namespace ebbtide::cli {

// No run, or not the one that was named. Says what to do.
struct NoRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// --job, --rank, --endpoint, --token-file, --timeout.
struct JobInput {
  std::string job;
  std::vector<int> ranks;
  std::vector<std::string> endpoints;
  std::string token_file;
  double timeout_seconds = 5;

  void addTo(CLI::App& verb);
  std::chrono::milliseconds timeout() const;
};

struct RankAnswer {
  int rank = -1;      // -1: of a node that did not tell its ranks
  std::string where;  // the node's endpoint; empty on this one
  int status = 0;     // HTTP's; 0: no answer
  nlohmann::json document;
  std::string problem;  // not empty: nothing of use came, and this is why, forTerminal()

  // "rank 3", "node7:9464, rank 3"
  std::string name() const;
};

class RunningJob {
 public:
  // Throws NoRun, or std::invalid_argument for arguments that cannot be meant. Sockets of this
  // machine that nobody listens on are named in notes().
  static RunningJob find(const JobInput& input);
  // All live jobs of this machine that have one of the ranks that are named, by id; none is no
  // error. For input without a job and without endpoints.
  static std::vector<RunningJob> findAll(const JobInput& input);

  const std::string& id() const { return id_; }  // empty with endpoints
  bool isWanted(int rank) const;                 // no --rank, or this one
  const std::vector<std::string>& notes() const { return notes_; }

  // As they are now: ranks that came since are among them. By rank; of one that is not there or
  // does not answer, why. `document` is as /v1/status has it.
  std::vector<RankAnswer> statuses() { return statuses(input_.timeout()); }
  std::vector<RankAnswer> statuses(std::chrono::milliseconds limit);
  // Those of several jobs of this machine: all ranks are asked at once, so a rank that hangs holds
  // up no other job.
  static std::vector<std::vector<RankAnswer>> statusesOf(std::vector<RunningJob>& jobs,
                                                         std::chrono::milliseconds limit,
                                                         const std::stop_token& stop);

  // Questions that are under way when a stop is asked for end then.
  void setStop(std::stop_token stop) { stop_ = std::move(stop); }

  // Of each rank; of a node that does not tell its ranks, why.
  std::vector<RankAnswer> get(const std::string& path);
  std::vector<RankAnswer> post(const std::string& path, const nlohmann::json& body,
                               std::chrono::milliseconds limit);

 private:
  struct Target {
    int rank = 0;
    std::string where;
    Address address;
  };

  // What is asked together: `questions` to `targets`, and why others are not asked.
  struct Round {
    std::vector<Target> targets;
    std::vector<RankAnswer> silent;
    std::vector<Question> questions;
  };

  RunningJob(const JobInput& input);
  void findHere();
  void take(const FoundJob& job, const std::string& folder);
  std::vector<RankAnswer> statusesOfNodes(std::chrono::milliseconds limit);
  // Of nodes that do not tell their ranks the answers, to `silent`.
  std::vector<Target> targets(std::vector<RankAnswer>& silent);
  Round roundOf(const Question& question);
  std::vector<RankAnswer> answersOf(Round round, std::span<const Reply> replies) const;
  std::vector<RankAnswer> askAll(const Question& question, std::chrono::milliseconds limit);

  JobInput input_;
  std::string id_, folder_, token_;
  std::vector<std::string> notes_;
  std::vector<int> dead_;
  std::stop_token stop_;
};

}  // namespace ebbtide::cli
