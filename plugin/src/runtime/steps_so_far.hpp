// StepsSoFar: what a run knows of the steps that it has taken, and which are to be recorded: one
// struct, as it belongs together. Torch-free; the session's guard guards it.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/observed_turn.hpp"
#include "runtime/program_table.hpp"
#include "runtime/recent_steps.hpp"
#include "runtime/run_figures.hpp"
#include "runtime/step_begin.hpp"
#include "runtime/steps_to_record.hpp"
#include "runtime/taken_steps.hpp"

namespace ebbtide::plugin {

struct StepsSoFar {
  std::int64_t ended = 0;
  StepBegin begun;  // of the step that began last
  TakenSteps taken;
  RunFigures figures;
  std::int64_t base_bytes = 0;
  std::int64_t first_peak_bytes = 0;  // mapped, of the first step
  ProgramTable programs;
  StepsToRecord to_record;
  ObservedTurn turn;

  // What a step takes, as whoever asks is told: the medians of the plan in force.
  std::optional<RecentSteps::Medians> stepTime() const {
    return taken.stepTime(ended, programs.active().fromStep());
  }
};

}  // namespace ebbtide::plugin
