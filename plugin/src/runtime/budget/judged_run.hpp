// JudgedRun: the parts of a run that its budget is judged by, and those that follow the verdict:
// which steps are recorded, and what is counted anew. Owns none of them. Torch-free.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "config/current_config.hpp"
#include "memory/trained_memory.hpp"
#include "observe/executor_counters.hpp"
#include "runtime/budget/spill_outage.hpp"
#include "runtime/output/metrics_export.hpp"
#include "runtime/programs/program_table.hpp"
#include "runtime/run/run_figures.hpp"
#include "runtime/run/session_guard.hpp"
#include "runtime/steps/steps_to_record.hpp"
#include "runtime/steps/taken_steps.hpp"

namespace ebbtide::plugin {

// Steps: by then gradients and the optimizer's state are there.
inline constexpr std::int64_t kStepsForOutlook = 3;

struct JudgedRun {
  using Held = SessionGuard::Held;
  using Tell = std::function<void(const std::string& text)>;

  SessionGuard& guard;
  const CurrentConfig& config;
  TrainedMemory& trained;
  MetricsExport& metrics;
  const ExecutorCounters& counters;
  const std::atomic<bool>& keeps_everything;  // nothing is dropped or recorded any more
  const SpillOutage& outage;
  // The guard guards these.
  const std::int64_t& steps;  // that have ended
  StepsToRecord& to_record;
  TakenSteps& taken;
  RunFigures& figures;
  ProgramTable& programs;
  std::function<bool(const Held&)> may_be_advised;  // by other ranks: who could help
  Tell say, warn;
};

}  // namespace ebbtide::plugin
