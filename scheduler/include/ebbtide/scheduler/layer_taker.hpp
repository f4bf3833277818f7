// Who could help a rank of a pipeline that cannot run its stages within its budget.
#pragma once

#include "ebbtide/scheduler/pipeline_job.hpp"
#include "ebbtide/scheduler/pipeline_simulator.hpp"

namespace ebbtide::scheduler {

struct LayerTaker {
  std::int32_t rank = kNone;  // kNone: no neighbour has memory to spare
  Bytes spare_bytes = 0;      // of its budget, with all recomputed
  bool could = false;         // take a layer

  friend bool operator==(const LayerTaker&, const LayerTaker&) = default;
};

// Of the ranks with the stages right before and after this rank's the one with the most to spare.
// It could take a layer if that is a layer's share of what the rank needs or, where nobody knows
// how many it has, what the rank lacks. `recomputed` is of the job with every microbatch at its
// last point.
LayerTaker layerTaker(const PipelineJob& job, const PipelineSimulation& recomputed,
                      std::int32_t rank, Bytes needed_bytes);

}  // namespace ebbtide::scheduler
