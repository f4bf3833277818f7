// A pipelined job from the steps that its ranks recorded.
#pragma once

#include <string>
#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"

namespace ebbtide::cli {

// Of each rank a file, in any order. Only what the traces say is set: budgets, latency and the like
// are the caller's. Throws std::invalid_argument: the file and what is wrong.
scheduler::PipelineJob jobFromTraces(const std::vector<std::string>& paths);

}  // namespace ebbtide::cli
