// Points for the microbatches of a rank with which it stays within its budget or, where no choice
// that is found does, holds as little as was found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"
#include "pipeline/rank_memory.hpp"

namespace ebbtide::scheduler {

// Chooses them in `memory`. True if the rank is within its budget then, or if no choice holds less.
bool makeSmall(const PipelineJob& job, std::size_t rank, RankMemory& memory);

// A point for each of a rank's slots, in the order of its forwards, with a peak below this one: the
// lowest, or any of at most `enough_bytes`. By dynamic programming over what is in flight.
struct LowestPeak {
  bool complete = true;  // false: given up, for there were too many states
  std::optional<std::vector<std::int32_t>> points;
};
LowestPeak lowestPeak(const PipelineJob& job, std::size_t rank, Bytes below_bytes,
                      Bytes enough_bytes, std::size_t most_states = 4096);

}  // namespace ebbtide::scheduler
