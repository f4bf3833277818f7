#pragma once

#include <string>

#include "ebbtide/scheduler/pipeline_job.hpp"
#include "ebbtide/scheduler/pipeline_simulator.hpp"

namespace ebbtide::cli {

// A Gantt chart: a row a rank, actions and replays over time.
std::string toSvg(const scheduler::PipelineJob& job,
                  const scheduler::PipelineSimulation& simulation, const std::string& title);

}  // namespace ebbtide::cli
