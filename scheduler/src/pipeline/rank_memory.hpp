// What each rank holds at each of its actions, as choices change: the planner's own model of bytes,
// apart from the simulator's.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"

namespace ebbtide::scheduler {

// A microbatch of a stage, and where the rank runs it.
struct Slot {
  std::int32_t stage = 0, microbatch = 0, rank = 0;
  std::int32_t forward = 0, backward = 0;  // positions in the rank's order
};

struct PeakLoad {
  Bytes bytes = 0;
  std::size_t positions = 0;  // that have it

  friend auto operator<=>(const PeakLoad&, const PeakLoad&) = default;
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

  std::int32_t lastPointOf(std::int32_t slot) const {
    return static_cast<std::int32_t>(profileOf(slot).points.size()) - 1;
  }

  // Would the rank stay within its budget, from this slot's forward to its backward, with what is
  // set aside?
  bool fits(std::int32_t slot, std::int32_t point) const;
  void choose(std::int32_t slot, std::int32_t point);
  // Room for those of the slot's replays that could run ahead in so long a wait; none at first.
  void setAside(std::int32_t slot, Nanoseconds wait_ns);

  // Of the slot's replays those that find room before its gradient is there.
  Nanoseconds aheadOf(std::int32_t slot) const;
  // With replays on demand.
  Bytes peakOf(std::size_t rank) const;
  // Where the rank holds the most; 0 where it has no action.
  std::size_t peakPosition(std::size_t rank) const;
  PeakLoad loadOf(std::size_t rank) const;
  // No choices have a lower peak. The actions' own least bytes, each by itself.
  Bytes leastPeakOf(std::size_t rank) const;

  StageChoices choices() const;

 private:
  Bytes asideFor(std::int32_t slot, const StagePoint& point) const;

  const PipelineJob& job_;
  std::vector<Slot> slots_;
  std::vector<std::vector<std::int32_t>> of_rank_;
  std::vector<std::int32_t> point_;        // of each slot; the first ones at first
  std::vector<Bytes> fixed_;               // of each rank: its stages' fixed bytes
  std::vector<std::vector<Bytes>> usage_;  // by rank, by position: the most while it runs
  std::vector<std::vector<Bytes>> aside_;  // the same: what is set aside besides
  std::vector<std::int32_t> waits_;        // of each rank: slots with room set aside
  std::vector<Nanoseconds> wait_ns_;       // of each slot: what it is set aside for
};

}  // namespace ebbtide::scheduler
