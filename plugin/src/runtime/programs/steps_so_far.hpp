// StepsSoFar: what a run knows of the steps that it has taken, and which steps are to be recorded.
// Torch-free; the session's guard guards it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/run_clock.hpp"
#include "ebbtide/allocator/device_memory.hpp"
#include "observe/executor_counters.hpp"
#include "runtime/programs/program_table.hpp"
#include "runtime/run/run_figures.hpp"
#include "runtime/run/session_guard.hpp"
#include "runtime/steps/largest_step.hpp"
#include "runtime/steps/observed_turn.hpp"
#include "runtime/steps/recent_steps.hpp"
#include "runtime/steps/steps_to_record.hpp"
#include "runtime/steps/taken_steps.hpp"

namespace ebbtide::plugin {

// The figures when a step began: the difference to later ones is what the step did.
struct StepBegin {
  RunClock::time_point at;
  allocator::Statistics memory;
  ExecutorCounters::Totals executor;
  std::int64_t late_backwards = 0;
  std::int64_t activation_bytes = 0;  // made by the step when its backward pass begins
};

struct StepsSoFar {
  std::int64_t ended = 0;
  StepBegin begun;  // of the step that began last
  TakenSteps taken;
  RunFigures figures;
  std::int64_t base_bytes = 0;
  std::int64_t first_peak_bytes = 0;  // mapped, of the first step
  ProgramTable programs;
  StepsToRecord to_record;
  LargestStep largest;  // without a budget
  ObservedTurn turn;

  // What a step takes, as answers give it: one of the main program under its plan.
  std::optional<RecentSteps::Medians> stepTime(const SessionGuard::Held&) const {
    const std::uint64_t main = programs.main();
    return taken.stepTime({.program = main,
                           .from_step = programs.active().fromStep(main),
                           .has_plan = programs.active().hasPlan(main)});
  }
};

}  // namespace ebbtide::plugin
