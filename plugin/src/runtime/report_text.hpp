// The report of a run, as it is written to the file that EBBTIDE_REPORT names. Torch-free.
#pragma once

#include <string>

#include "runtime/budget/budget_controller.hpp"
#include "runtime/planning/job_client.hpp"
#include "runtime/programs/steps_so_far.hpp"
#include "verify/replay_trust.hpp"

namespace ebbtide::plugin {

struct ReportedRun {
  const BudgetController& budget;
  const StepsSoFar& steps;
  const ReplayTrust& trust;
  const JobClient& job;
  const std::string& torch_version;
  bool ended = false;
  bool passes_through = false;  // since an error switched to pass-through
};

std::string reportText(const SessionGuard::Held& held, const ReportedRun& run);

}  // namespace ebbtide::plugin
