// LaneState: the state of one lane, behind one lock: each large allocation needs all of it. The
// budget tracker must outlive it. Thread rule: threads reach it through LockedLane.
#pragma once

#include <cstdint>

#include "arena_units.hpp"
#include "ebbtide/allocator/budget_tracker.hpp"
#include "locked.hpp"
#include "placement_counts.hpp"
#include "sequence_cursor.hpp"

namespace ebbtide::allocator {

struct LaneState {
  LaneState(BudgetTracker& tracker, std::uint32_t arena_units) : units(tracker, arena_units) {}

  SequenceCursor step;
  PlacementCounts counts;
  ArenaUnits units;
};

using LockedLane = Locked<LaneState>;

}  // namespace ebbtide::allocator
