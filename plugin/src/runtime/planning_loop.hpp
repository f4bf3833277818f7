// PlanningLoop: what a run's planning thread does, turn by turn. First comes what is due by a
// clock, then a better plan that was found, or a plan that a step waits for. Last comes what may
// wait: addresses, requests, the job's plan. Torch-free. Thread rule: the planning thread, without
// the guard.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "runtime/budget/budget_controller.hpp"
#include "runtime/output/run_lines.hpp"
#include "runtime/output/run_outputs.hpp"
#include "runtime/planning/planning_service.hpp"
#include "runtime/programs/steps_so_far.hpp"
#include "runtime/rank_in_job.hpp"
#include "runtime/run/run_control.hpp"
#include "runtime/run/run_life.hpp"
#include "runtime/step_planning.hpp"

namespace ebbtide::plugin {

class PlanningLoop {
 public:
  using Held = SessionGuard::Held;
  using Time = std::chrono::steady_clock::time_point;

  struct Parts {  // of the run; they outlive this, and are not used before it is made
    PlanningService& service;
    StepPlanning& plans;
    const BudgetController& budget;
    const StepsSoFar& steps;
    TrainedMemory& trained;
    RunControl& control;
    RankInJob& rank;
    RunOutputs& outputs;
    const RunLife& life;
    std::function<std::string()> report;
    const RunLines& lines;
  };
  explicit PlanningLoop(Parts parts) : parts_(std::move(parts)) {}

  // Until the process ends.
  void run();

 private:
  SessionGuard& guard() const noexcept { return parts_.budget.run().guard; }
  Time nextPlaceLook(const Held& held) const;
  bool hasStepToPlace() const;
  void doWhatIsDue();
  void placeStep();
  void pollJob();
  void rewriteReport();

  const Parts parts_;
};

}  // namespace ebbtide::plugin
