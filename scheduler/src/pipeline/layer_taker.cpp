#include "ebbtide/scheduler/layer_taker.hpp"

namespace ebbtide::scheduler {

LayerTaker layerTaker(const PipelineJob& job, const PipelineSimulation& recomputed,
                      std::int32_t rank, Bytes needed_bytes) {
  LayerTaker best;
  Bytes layers = 0;
  bool known = true;
  for (const Stage& stage : job.stages) {
    if (stage.rank != rank) continue;
    layers += job.profiles[stage.profile].layers;
    known = known && job.profiles[stage.profile].layers > 0;
    for (const std::int32_t other : {stage.previous, stage.next}) {
      if (other == kNone || job.stages[other].rank == rank) continue;
      const std::int32_t neighbour = job.stages[other].rank;
      const Bytes spare = job.budgets[neighbour] - recomputed.ranks[neighbour].peak_bytes;
      if (spare > best.spare_bytes) best = {neighbour, spare, false};
    }
  }
  const Bytes enough =
      known && layers > 0 ? (needed_bytes + layers - 1) / layers : needed_bytes - job.budgets[rank];
  best.could = best.rank != kNone && best.spare_bytes >= enough;
  return best;
}

}  // namespace ebbtide::scheduler
