#pragma once

#include <string>

#include "ebbtide/scheduler/pipeline_job.hpp"
#include "ebbtide/scheduler/pipeline_simulator.hpp"

namespace ebbtide::cli {

// Chrome's trace format, which Perfetto opens: a process a rank, actions and replays as slices, the
// most bytes of each action and the budget as counters.
std::string toTrace(const scheduler::PipelineJob& job,
                    const scheduler::PipelineSimulation& simulation);

}  // namespace ebbtide::cli
