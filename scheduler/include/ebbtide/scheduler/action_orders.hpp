// The orders in which known pipeline schedules run their actions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"

namespace ebbtide::scheduler {

struct PipelineShape {
  std::int32_t ranks = 1;
  std::int32_t stages_per_rank = 1;  // rank r has the stages r, r + ranks, r + 2 * ranks, …
  std::int32_t microbatches = 1;
};

struct ActionOrderInfo {
  std::string name;
  std::string source;   // paper, or whose implementation has this order
  std::string demands;  // of the shape, as a sentence; empty: none
};

// "gpipe", "1f1b", "interleaved", "zb-h1".
const std::vector<ActionOrderInfo>& actionOrders();

// Throws std::invalid_argument: an unknown name, with the known ones; a shape that the schedule
// does not have, with what it demands.
ActionOrder actionOrder(std::string_view name, const PipelineShape& shape);

}  // namespace ebbtide::scheduler
