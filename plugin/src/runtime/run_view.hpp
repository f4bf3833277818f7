// RunView: a run at one moment, for those who look on or ask for something: copied out under one
// hold of the session's guard, and read without it. Torch-free.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/gpu_identity.hpp"
#include "plan/plan.hpp"
#include "runtime/budget/shown_plan.hpp"
#include "runtime/run/run_figures.hpp"
#include "runtime/steps/recent_steps.hpp"
#include "runtime/steps/recorded_steps.hpp"

namespace ebbtide::plugin {

struct RunView {
  // --- the process
  bool awake = false;             // a training op has run
  bool ended = false;             // nothing is planned or taken any more
  bool passes_through = false;    // switched so by an error
  bool keeps_everything = false;  // for good

  // --- the rank
  std::optional<GpuIdentity> gpu;
  std::vector<std::int32_t> stages;

  // --- the budget
  std::optional<std::int64_t> budget_bytes;  // in force; nothing: none
  int budget_number = 0;                     // what was begun under another is no word on it
  std::string mode = "measure";              // "budget", "paused"
  bool is_paused = false;                    // from the next step on, if not yet
  std::int64_t held_steps = 0;               // in a row, that kept within it and tell of it

  // --- steps
  std::int64_t steps = 0;
  bool step_is_open = false;
  double first_step_seconds = 0;
  RecentSteps recent;
  std::optional<RecentSteps::Medians> step_time;  // as StepsSoFar::stepTime()
  std::vector<RecordedStep> recorded;             // one of each program that runs
  RecordedStep largest;                           // of these

  // --- memory
  std::int64_t cached_bytes = 0;  // when the last step began or ended
  std::int64_t base_bytes = 0;
  std::int64_t peak_allocated_bytes = 0, peak_mapped_bytes = 0;
  std::shared_ptr<const RunFigures::Timeline> timeline;

  // --- plans
  ShownPlan shown;
  std::int64_t predicted_peak_bytes = 0;  // of the program that ran last; 0: none is known

  // The first one that has not begun.
  std::int64_t nextStep() const { return steps + (step_is_open ? 2 : 1); }
  // What a step of that program takes, less what we add. Of several programs its own steps alone
  // are its measure; where it has none yet, the one that was recorded.
  double plainSeconds(std::uint64_t program, double recorded_seconds) const {
    const auto medians =
        recorded.size() < 2 ? step_time : recent.medians(RecentSteps::kMost, program);
    return medians ? medians->plain_seconds : recorded_seconds;
  }
};

}  // namespace ebbtide::plugin
