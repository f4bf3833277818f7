// RankInJob: which rank of its job a process is, its part in the job's plan, and what follows from
// both. Torch-free.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "runtime/job_client.hpp"
#include "runtime/job_outcome.hpp"
#include "runtime/rank_discovery.hpp"
#include "runtime/rank_identity.hpp"
#include "runtime/run_lines.hpp"

namespace ebbtide::plugin {

struct RankInJob {
  struct Parts {  // of the run; they outlive this, and are not used before it is made
    SessionGuard& guard;
    CurrentConfig& config;
    TrainedMemory& trained;
    MetricsExport& metrics;
    BudgetController& budget;
    RunControl& control;
    PlanningService& planning;
    StepPlanning& plans;
    const std::atomic<bool>& ends;
    const RunLines& lines;
    std::string torch_version;
    std::function<JobClient::Here()> here;
  };
  explicit RankInJob(const Parts& parts);

  JobOutcome outcome;
  JobClient client;
  RankIdentity identity;
  RankDiscovery discovery;
};

}  // namespace ebbtide::plugin
