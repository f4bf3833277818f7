// verdictOn(): what a step that is over says of its program: was its plan right, and is the program
// to be recorded, or planned, again? Reads what it is given, and changes nothing. Torch-free.
#pragma once

#include <cstdint>

#include "ebbtide/allocator/device_memory.hpp"
#include "observe/executor_counters.hpp"
#include "runtime/programs/program.hpp"
#include "runtime/steps/step_summary.hpp"

namespace ebbtide::plugin {

struct JudgedStep {
  const StepSummary& summary;
  const allocator::Statistics& memory;   // at its end
  const ExecutorCounters::Totals& done;  // in it
};

struct StepVerdict {
  static constexpr int kSlowOffloads = 3;  // in a row: the program is planned again

  bool followed_plan = false;     // a trusted one, to its end: the next two are of that
  std::int64_t peak_bytes = 0;    // live at most
  bool offloads_slowly = false;   // than planned
  bool plan_again = false;        // the plan is wrong, or it is wrong that none is needed
  bool spills = false;            // or drops at a moment of pressure
  bool spills_unplanned = false;  // without a plan of its own, and none is being made
};

// `program`: its; nullptr: not known which. `planning`: a plan is being made.
StepVerdict verdictOn(const JudgedStep& step, const Program* program, bool planning);

}  // namespace ebbtide::plugin
