// The line that a run ends with. Torch-free.
#pragma once

#include "runtime/budget/budget_controller.hpp"
#include "runtime/output/run_lines.hpp"
#include "runtime/programs/steps_so_far.hpp"
#include "runtime/step_planning.hpp"

namespace ebbtide::plugin {

struct EndedRun {
  BudgetController& budget;
  StepPlanning& plans;  // their lines that are not said yet come first
  const StepsSoFar& steps;
  const RunLines& lines;
};

// Rank 0 speaks for all ranks. A rank of its machine whose peak differs is told of by the one that
// ends first: the other may be gone later. After an out-of-memory error nothing is said. Takes the
// guard.
void sayLastLine(const EndedRun& ended);

}  // namespace ebbtide::plugin
