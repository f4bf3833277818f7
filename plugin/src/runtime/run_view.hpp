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
  // Whether the process trains, and follows plans.
  struct Process {
    bool awake = false;             // a training op has run
    bool ended = false;             // nothing is planned or taken any more
    bool passes_through = false;    // switched so by an error
    bool keeps_everything = false;  // for good
  };
  // What this rank trains on, and its stages of a pipeline.
  struct Rank {
    std::optional<GpuIdentity> gpu;
    std::vector<std::int32_t> stages;
  };
  // The budget in force, and how the run keeps within it.
  struct Budget {
    std::optional<std::int64_t> bytes;  // nothing: none
    int number = 0;                     // what was begun under another is no word on it
    std::string mode = "measure";       // "budget", "paused"
    bool is_paused = false;             // from the next step on, if not yet
    std::int64_t held_steps = 0;        // in a row, that kept within it and tell of it
  };
  // The steps so far, and what they took.
  struct Steps {
    std::int64_t count = 0;
    bool is_open = false;  // one runs
    double first_seconds = 0;
    RecentSteps recent;
    std::optional<RecentSteps::Medians> time;  // as StepsSoFar::stepTime()
    std::vector<RecordedStep> recorded;        // one of each program that runs
    RecordedStep largest;                      // of these
  };
  // What the run takes of the memory that it trains in, and when.
  struct Memory {
    std::int64_t cached_bytes = 0;  // when the last step began or ended
    std::int64_t base_bytes = 0;
    std::int64_t peak_allocated_bytes = 0, peak_mapped_bytes = 0;
    std::int64_t predicted_peak_bytes = 0;  // of the program that ran last; 0: none is known
    std::shared_ptr<const RunFigures::Timeline> timeline;
  };

  Process process;
  Rank rank;
  Budget budget;
  Steps steps;
  Memory memory;
  ShownPlan shown;

  // The first one that has not begun.
  std::int64_t nextStep() const { return steps.count + (steps.is_open ? 2 : 1); }
  // What a step of that program takes, less what we add. Of several programs its own steps alone
  // are its measure; where it has none yet, the one that was recorded.
  double plainSeconds(std::uint64_t program, double recorded_seconds) const {
    const auto medians =
        steps.recorded.size() < 2 ? steps.time : steps.recent.medians(RecentSteps::kMost, program);
    return medians ? medians->plain_seconds : recorded_seconds;
  }
};

}  // namespace ebbtide::plugin
