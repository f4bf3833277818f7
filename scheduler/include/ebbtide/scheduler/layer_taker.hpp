// Who could help a rank of a pipeline that cannot run its stages within its budget.
#pragma once

#include "ebbtide/scheduler/pipeline_job.hpp"
#include "ebbtide/scheduler/pipeline_simulator.hpp"

namespace ebbtide::scheduler {

struct LayerTaker {
  std::int32_t rank = kNone;  // kNone: no neighbour has memory to spare
  Bytes spare_bytes = 0;      // of its budget, with all recomputed

  friend bool operator==(const LayerTaker&, const LayerTaker&) = default;
};

// Of the ranks with the stages right before and after this rank's the one with the most to spare.
// `recomputed` is of the job with every microbatch at its last point.
LayerTaker layerTaker(const PipelineJob& job, const PipelineSimulation& recomputed,
                      std::int32_t rank);

}  // namespace ebbtide::scheduler
