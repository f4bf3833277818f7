// RecordedRun: what a run of a command left that ended after some steps: a report and the recorded
// steps of each rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "launch/command_run.hpp"
#include "report/run_report.hpp"

namespace ebbtide::cli {

struct RecordedStep {
  scheduler::Trace trace;
  scheduler::TraceGraph graph;
  scheduler::Bytes plain_peak_bytes = 0;  // of all values kept, in blocks
};

struct RecordedRun : CommandRun {
  std::int64_t asked_steps = 0;
  std::vector<RunReport> reports;  // by rank

  static std::string tracesIn(const std::string& folder) { return folder + "/traces"; }
  static std::string reportsIn(const std::string& folder) { return folder + "/reports"; }

  std::int64_t stepsOfAll() const;  // that each rank made; 0: there is none
  // A launcher may miss what its ranks would have done after their last step.
  bool failed() const;
  bool heldItsBudget() const;  // each rank, in all steps
  // By what has to do with no budget, as far as reports and output tell: a crash, the time limit.
  bool failedForOtherReasons() const;
  std::string summary() const;  // "measured run: 3 steps on 2 ranks, 12.30 s"
  // The one that needs the largest budget; nullptr: there is none.
  const RunReport* neediest() const;
};

// After its end.
RecordedRun readRecordedRun(std::string name, std::string folder, RunEnd end,
                            std::int64_t asked_steps);

// Of a rank's recorded steps the one with the largest peak, the first one only where there is no
// other: later ones find gradients and the optimizer's state. Nothing: none was recorded. Throws
// std::invalid_argument that begins with the path of one that cannot be read.
std::optional<RecordedStep> largestStep(const RecordedRun& run, int rank);

// The reports, with what the recorded steps after the first one need by their margins, where that
// is less.
// What a first step leaves to later steps counts as there from its start on. A batch that a loader
// prefetches counts so too, beside the batches of the step itself. Throws as largestStep() does.
std::vector<RunReport> reportsOfLaterSteps(const RecordedRun& run);

}  // namespace ebbtide::cli
