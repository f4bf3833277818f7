// What each rank holds at each of its actions, as choices change: the planner's own model of bytes,
// apart from the simulator's.
#pragma once

#include <cstdint>
#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"

namespace ebbtide::scheduler {

// A microbatch of a stage, and where the rank runs it.
struct Slot {
  std::int32_t stage = 0, microbatch = 0, rank = 0;
  std::int32_t forward = 0, backward = 0;  // positions in the rank's order
};

// The job outlives it.
class RankMemory {
 public:
  explicit RankMemory(const PipelineJob& job);

  const std::vector<Slot>& slots() const { return slots_; }
  // Slots of a rank, in the order of their forwards.
  const std::vector<std::int32_t>& slotsOf(std::size_t rank) const { return of_rank_[rank]; }
  std::int32_t pointOf(std::int32_t slot) const { return point_[slot]; }
  const StageProfile& profileOf(std::int32_t slot) const {
    return job_.profileOf(slots_[slot].stage);
  }
  const StagePoint& choiceOf(std::int32_t slot) const {
    return profileOf(slot).points[point_[slot]];
  }

  // Would the rank stay within its budget, from this slot's forward to its backward?
  bool fits(std::int32_t slot, std::int32_t point) const;
  void choose(std::int32_t slot, std::int32_t point);
  Bytes peakOf(std::size_t rank) const;
  // Where the rank holds the most; 0 where it has no action.
  std::size_t peakPosition(std::size_t rank) const;

  StageChoices choices() const;

 private:
  const PipelineJob& job_;
  std::vector<Slot> slots_;
  std::vector<std::vector<std::int32_t>> of_rank_;
  std::vector<std::int32_t> point_;        // of each slot; the first ones at first
  std::vector<Bytes> fixed_;               // of each rank: its stages' fixed bytes
  std::vector<std::vector<Bytes>> usage_;  // by rank, by position: the most while it runs
};

}  // namespace ebbtide::scheduler
