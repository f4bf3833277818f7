// RunOutputs: what a run shows to observers: its series, its executor's counters, traces, snapshots
// of its memory, its files. Torch-free.
#pragma once

#include <string>

#include "config/current_config.hpp"
#include "memory/trained_memory.hpp"
#include "observe/executor_counters.hpp"
#include "observe/memory_snapshots.hpp"
#include "observe/run_trace.hpp"
#include "runtime/output/metrics_export.hpp"
#include "runtime/output/run_lines.hpp"
#include "runtime/run/run_files.hpp"

namespace ebbtide::plugin {

struct RunOutputs {
  // All of the arguments must outlive this.
  RunOutputs(const CurrentConfig& config, TrainedMemory& trained, const std::string& torch_version,
             const RunLines& lines)
      : trace(config, trained, lines.warner()),
        snapshots(config, trained, lines.warner()),
        metrics(config, torch_version, lines.warner(), lines.debugger()),
        counters(metrics.series()),
        files(config, lines.warner()) {}

  RunTrace trace;
  MemorySnapshots snapshots;
  MetricsExport metrics;
  ExecutorCounters counters;
  RunFiles files;
};

}  // namespace ebbtide::plugin
