// RankIdentity: what a process does by which rank of its job it is (RankDiscovery finds out): its
// configuration, its series and its budget are that rank's, and it says where it is to be found.
// Torch-free.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "runtime/budget/budget_controller.hpp"
#include "runtime/output/metrics_export.hpp"
#include "runtime/run/rank_discovery.hpp"
#include "runtime/run/run_control.hpp"

namespace ebbtide::plugin {

class RankIdentity final : public RankDiscovery::Process {
 public:
  using Held = SessionGuard::Held;
  using Tell = RankDiscovery::Tell;

  // What is referred to must outlive it, and may be made after it.
  struct Parts {
    SessionGuard& guard;
    CurrentConfig& config;
    TrainedMemory& trained;
    MetricsExport& metrics;
    BudgetController& budget;
    RunControl& control;
    const RankDiscovery& discovery;
    std::string torch_version;
    std::function<void()> settle_job;  // its part in the plan of its job is that of this rank
    Tell say, warn;
  };
  explicit RankIdentity(Parts parts) : parts_(std::move(parts)) {}

  void becomeRank(const Held& held, const RankPlace& place, const std::string& job_id) override;
  bool awaitRanks(const Held& held, bool awaits) override;
  RunControl::Served serve(bool on_any_port) override;
  bool sayWhere(const std::string& endpoint, bool first) override;
  void settleRank() override;

 private:
  std::string budgetInWords() const;

  const Parts parts_;
};

}  // namespace ebbtide::plugin
