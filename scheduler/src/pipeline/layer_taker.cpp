#include "ebbtide/scheduler/layer_taker.hpp"

namespace ebbtide::scheduler {

LayerTaker layerTaker(const PipelineJob& job, const PipelineSimulation& recomputed,
                      std::int32_t rank) {
  LayerTaker best;
  for (const Stage& stage : job.stages) {
    if (stage.rank != rank) continue;
    for (const std::int32_t other : {stage.previous, stage.next}) {
      if (other == kNone || job.stages[other].rank == rank) continue;
      const std::int32_t neighbour = job.stages[other].rank;
      const Bytes spare = job.budgets[neighbour] - recomputed.ranks[neighbour].peak_bytes;
      if (spare > best.spare_bytes) best = {neighbour, spare};
    }
  }
  return best;
}

}  // namespace ebbtide::scheduler
