// JobOutcome: what a process does by the findings and decisions of its job's ranks. Torch-free.
//
// Thread rule: the planning thread; stopOnceAdvised(): the thread whose step is over.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/budget/budget_controller.hpp"
#include "runtime/output/metrics_export.hpp"
#include "runtime/planning/job_client.hpp"
#include "runtime/planning/planning_service.hpp"
#include "runtime/step_planning.hpp"

namespace ebbtide::plugin {

class JobOutcome final : public JobClient::Process {
 public:
  using Held = SessionGuard::Held;

  struct Parts {  // of the run; they outlive this, and may be made after it
    SessionGuard& guard;
    BudgetController& budget;
    MetricsExport& metrics;
    PlanningService& planning;
    StepPlanning& plans;
  };
  explicit JobOutcome(const Parts& parts) : parts_(parts) {}

  bool foundStages(const std::vector<std::int32_t>& stages) override;
  void seeStages(const std::vector<std::int32_t>& stages) override;
  void fallShort(const JobFindings::Rank& of) override;
  void endRound(const std::string& why) override;
  void adopt(const RankJob::Decision& decision) override;

  // A step is over: where the rank cannot fit its budget, it waits a while for the others' advice.
  void stopOnceAdvised();

 private:
  const Parts parts_;
};

}  // namespace ebbtide::plugin
