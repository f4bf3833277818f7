// Which point of its time-memory curve each microbatch of each stage takes, so that every rank
// stays within its budget and the step ends as early as can be.
//
// Data in, data out: no clock but the deadline, no randomness but the seed. What a rank may hold
// depends on the order of its actions alone, not on time, so budgets are kept exactly.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"

namespace ebbtide::scheduler {

struct PipelineOptions {
  // Without one the work is counted, and the result is the same for a seed on any machine.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::uint64_t seed = 0;
};

// A rank that cannot run its stages within its budget, whatever it recomputes.
struct RankShortfall {
  std::int32_t rank = 0;
  Bytes budget_bytes = 0;
  Bytes needed_bytes = 0;
};

struct PipelinePlan {
  std::vector<RankShortfall> shortfalls;  // empty: feasible
  StageChoices choices;  // legal even where infeasible: there the least memory that was found
  Nanoseconds makespan_ns = 0;
  Nanoseconds bound_ns = 0;  // no choices within the budgets end earlier
  std::string method;        // which start the result came from

  bool feasible() const { return shortfalls.empty(); }
};

// Throws std::invalid_argument for a job that checkJob() or simulate() refuses.
PipelinePlan planPipeline(const PipelineJob& job, const PipelineOptions& options = {});

}  // namespace ebbtide::scheduler
