// The pipeline that the recorded steps of all its ranks make together.
#pragma once

#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"
#include "ebbtide/scheduler/rank_actions.hpp"

namespace ebbtide::scheduler {

// What a rank says of one of its stages (RankChunk::part).
struct PartCosts {
  std::vector<StagePoint> points;
  Bytes fixed_bytes = 0;
  Bytes weight_held_bytes = 0;
};

struct JoinedRanks {
  // Action i of a rank is order[rank][i]. Budgets are 0, messages take no time: the caller's.
  PipelineJob job;
  std::vector<std::int32_t> part_of_stage;  // of the stage's rank
};

// Of each rank of the group, in their order; of each of its parts its costs.
//
// The k-th message from a rank to another is the k-th that the other receives from it. Forwards
// that receive do so in the order in which they are sent to, unless scopes say otherwise; where all
// scopes name stages and microbatches, they alone link. Times are medians over microbatches. Stages
// with the same bytes and with times within 5 % share a profile, which has their mean times. What a
// rank does once a step is shared out evenly among its stages' tails.
//
// Deterministic. Throws std::invalid_argument that names rank and action where ranks do not fit
// together, or one was refused.
JoinedRanks joinRanks(const std::vector<RankActions>& ranks,
                      const std::vector<std::vector<PartCosts>>& costs);

}  // namespace ebbtide::scheduler
