// Which point of its time-memory curve each microbatch of each stage takes, so that every rank
// stays within its budget and the step ends as early as can be.
//
// Data in, data out: no clock but the deadline, no randomness but the seed. What a rank may hold
// depends on the order of its actions alone, not on time, so budgets are kept exactly.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"

namespace ebbtide::scheduler {

struct PipelineOptions {
  // Without one the work is counted, and the result is the same for a seed on any machine.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::uint64_t seed = 0;
  // True, by another thread: ends as soon as it can, with what nobody should use. nullptr: never.
  const std::atomic<bool>* stop = nullptr;
};

// A rank for whose stages no choices were found that keep it within its budget.
struct RankShortfall {
  std::int32_t rank = 0;
  Bytes budget_bytes = 0;
  Bytes needed_bytes = 0;  // the least peak that was found
  bool is_least = false;   // proven: no choices need less
};

struct PipelinePlan {
  std::vector<RankShortfall> shortfalls;  // empty: feasible
  // Legal even where infeasible: a rank that does not fit has the least peak that was found there.
  StageChoices choices;
  Nanoseconds makespan_ns = 0;
  Nanoseconds bound_ns = 0;  // no choices within the budgets end earlier
  std::string method;        // which start the result came from

  bool feasible() const { return shortfalls.empty(); }
};

// Throws std::invalid_argument for a job that checkJob() or simulate() refuses.
PipelinePlan planPipeline(const PipelineJob& job, const PipelineOptions& options = {});

}  // namespace ebbtide::scheduler
