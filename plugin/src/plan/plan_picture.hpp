// PlanPicture: a plan as it is drawn: what is live over a step, what is computed again, and what
// the rank does when. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/memory_areas.hpp"
#include "ebbtide/scheduler/schedule.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::plugin {

struct PlanPicture {
  struct Recomputed {  // by name, of one step
    std::string op;
    std::int64_t ops = 0;
    double seconds = 0;
    std::int64_t freed_bytes = 0;  // of what is made again
  };
  // Of a pipeline: the recorded step with the plan's replays, where the other ranks send what they
  // do when they did.
  struct Slice {
    std::string kind;  // "forward", "backward", "wait", "recompute"
    std::int32_t microbatch = scheduler::kNone, stage = scheduler::kNone;
    double start_seconds = 0, seconds = 0;
  };

  scheduler::MemoryAreas areas;
  std::vector<Recomputed> recomputed;  // most seconds first
  std::vector<Slice> slices;           // empty: the step is no pipeline's
};

// `step`: of the trace, with copies. Precondition: validate() accepts the schedule.
PlanPicture drawPlan(const scheduler::Trace& trace, const scheduler::TraceGraph& step,
                     const scheduler::Schedule& schedule);

}  // namespace ebbtide::plugin
