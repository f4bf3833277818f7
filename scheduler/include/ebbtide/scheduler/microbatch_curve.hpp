// The time-memory curve of one microbatch: schedules of its graph, by what it holds between its
// forward and its backward against what it replays.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ebbtide/scheduler/microbatch.hpp"
#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

struct MicrobatchPoint {
  StagePoint point;
  Schedule schedule;  // of the microbatch's graph
};

struct CurveOptions {
  // What the rank's microbatches may take together, and how many of them it holds at most at once.
  // While one runs the others hold: the less each holds, the more the one that runs may take.
  Bytes most_bytes = 0;
  std::int32_t in_flight = 1;
  std::size_t points = 10;  // at most; 1: only the one that keeps everything
  std::string planner = "auto";
  PlannerOptions planner_options = {};  // the deadline is of the whole curve
};

// By rising recompute_ns and falling held_bytes, as PipelineJob asks for; the first one replays
// nothing.
std::vector<MicrobatchPoint> microbatchCurve(const Microbatch& microbatch,
                                             const CurveOptions& options);

}  // namespace ebbtide::scheduler
