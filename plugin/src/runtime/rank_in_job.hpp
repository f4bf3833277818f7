// RankInJob: which rank of its job a process is, its part in the job's plan, and what follows from
// both. Torch-free.
//
//   first training op: readPlace() ─► says where it is, or the planning thread first asks the ranks
//     └─ forked: first step with a backward pass: noteTrains() ─► says where it is
//   planning thread: beginJob() … ─► another rank than was taken: its part begins anew
//   exit: settleAtEnd()
//
// Thread rule: the parts say theirs; of its own, what names no thread is the training thread's.
#pragma once

#include <string>

#include "runtime/job_outcome.hpp"
#include "runtime/output/run_lines.hpp"
#include "runtime/planning/job_client.hpp"
#include "runtime/rank_identity.hpp"
#include "runtime/run/rank_discovery.hpp"
#include "runtime/run/run_life.hpp"

namespace ebbtide::plugin {

class RankInJob {
 public:
  using Held = SessionGuard::Held;

  struct Parts {  // of the run; they outlive this, and are not used before it is made
    SessionGuard& guard;
    CurrentConfig& config;
    TrainedMemory& trained;
    MetricsExport& metrics;
    BudgetController& budget;
    RunControl& control;
    PlanningService& planning;
    StepPlanning& plans;
    RunLife& life;
    const RunLines& lines;
    const std::string& torch_version;
  };
  explicit RankInJob(const Parts& parts);

  JobClient& client() noexcept { return client_; }
  const JobClient& client() const noexcept { return client_; }
  JobOutcome& outcome() noexcept { return outcome_; }
  RankDiscovery& discovery() noexcept { return discovery_; }

  // Before the first step: what the launcher's variables tell by now.
  void readPlace();
  // A step with a backward pass is over: a forked child shows itself from its first one on.
  void noteTrains();
  // Of the job, by the planning thread as it begins.
  void beginJob() { client_.begin(here()); }
  // The planning thread has ended, and the process has not acted by what it is taken to be.
  void settleAtEnd();

 private:
  void showChild();
  JobClient::Here here() const;

  const Parts parts_;
  JobOutcome outcome_;
  JobClient client_;
  RankIdentity identity_;
  RankDiscovery discovery_;
};

}  // namespace ebbtide::plugin
