// RunParts: the parts of a run that its steps work with. They outlive the steps. Torch-free.
//
// Thread rule: any thread; the references never change, and the parts state their own rules.
#pragma once

#include "device/spill_target.hpp"
#include "memory/trained_memory.hpp"
#include "observe/executor_counters.hpp"
#include "observe/run_trace.hpp"
#include "runtime/budget/drops_allowed.hpp"
#include "runtime/budget/outage_course.hpp"
#include "runtime/output/run_lines.hpp"
#include "runtime/steps/step_events.hpp"
#include "runtime/verifications.hpp"
#include "verify/replay_trust.hpp"

namespace ebbtide::plugin {

struct RunParts {
  StepEvents& events;
  Verifications& verifications;
  DropsAllowed& drops;
  OutageCourse& outage;
  ReplayTrust& trust;
  TrainedMemory& trained;
  SpillTarget& spills;  // where values go from that memory
  ExecutorCounters& counters;
  RunTrace& trace;
  const RunLines& lines;
};

}  // namespace ebbtide::plugin
