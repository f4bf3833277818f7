// ArenaUnits: what each unit of an arena is: a block's, free, or a hole. Bookkeeping only; not
// thread-safe.
//
//   ├ hole ┤ block ├ free ┤ block ├── hole ──┤ addresses of no sequence
//   0                                       top
//
//   free ─ take() ─► block ─ free(), release() ─► free
//   free, hole ─ claim() ─► on its way ─ fill(), settleAsBlock() ─► block, and free beside it
//   free ─ claimFree() ─► on its way ─ settleAsHole() ─► hole
//
// A hole has no page. Units on their way belong to the thread that maps or unmaps them without the
// lock; nobody else can take them. A page is mapped as a whole, so holes are whole pages.
#pragma once

#include <cstdint>
#include <utility>

#include "ebbtide/allocator/budget_tracker.hpp"
#include "ebbtide/allocator/placed_sequence.hpp"
#include "sparse_array.hpp"
#include "unit_bitmap.hpp"
#include "unit_range.hpp"

namespace ebbtide::allocator {

class ArenaUnits {
 public:
  // `units`: of all addresses. Blocks count as live with the tracker until they are freed. Throws
  // std::bad_alloc when there is no room for the bookkeeping.
  ArenaUnits(BudgetTracker& tracker, std::uint32_t units);

  std::uint32_t top() const noexcept { return top_; }
  // Up to there are holes now; whole pages. It never falls.
  void raiseTop(std::uint32_t top) noexcept;

  // A block there; false where a unit is not free, or above the top.
  bool take(const UnitRange& wanted) noexcept;
  bool isBelowTop(const UnitRange& wanted) const noexcept { return wanted.end() <= top_; }
  // The units of the block that starts there; 0: none does.
  std::uint32_t blockUnits(std::uint32_t begin) const noexcept {
    return size_at_[begin] & ~kShared;
  }
  void markShared(std::uint32_t begin) noexcept;  // ignored where no block starts
  // A shared block is dead then, but keeps its units until release().
  enum class Freed { kNone, kReleased, kShared };  // kNone: no block starts there
  Freed free(std::uint32_t begin) noexcept;
  void release(std::uint32_t begin) noexcept;
  bool anyBlock() const noexcept { return block_units_ > 0; }

  // Units that are filled for a claim count as free until the claim is a block.
  std::int64_t freeUnits() const noexcept { return top_ - hole_units_ - block_units_; }
  struct Run {
    std::uint32_t units;
    bool is_free;
  };
  // The run of free units, or of other units, that begins there; no units at the top.
  Run runFrom(std::uint32_t unit) const noexcept;
  // The first hole between; no units: there is none.
  UnitRange nextHole(std::uint32_t from, std::uint32_t end) const noexcept;
  std::int64_t holeUnits(const UnitRange& within) const noexcept;
  // `wanted` rounded outwards to multiples of `step_units`, but not above the top.
  UnitRange around(const UnitRange& wanted, std::uint32_t step_units) const noexcept;
  // visit(range, is_block) for all that is mapped. Nothing is on its way.
  template <typename Visit>
  void forEachMapped(Visit&& visit) const;

  // Is each unit free or a hole? False also where the arena has no hole and nothing on its way.
  bool lacksOnlyPages(const UnitRange& wanted) const noexcept;
  void claim(const UnitRange& wanted) noexcept;  // lacksOnlyPages()
  // The hole is mapped. In the claimed range it stays so, beside it it is free.
  void fill(const UnitRange& hole, const UnitRange& claimed) noexcept;
  void settleAsBlock(const UnitRange& claimed) noexcept;   // no hole is left in it
  void settleAsBefore(const UnitRange& claimed) noexcept;  // what is no hole is free

  // Whole pages; false where a unit is not free.
  bool claimFree(const UnitRange& pages) noexcept;
  void settleAsHole(const UnitRange& pages) noexcept;  // they are unmapped
  void settleAsFree(const UnitRange& pages) noexcept;  // they were not

 private:
  static constexpr std::uint32_t kShared = 1U << 31;  // in size_at_: markShared() was called

  UnitBitmap taken_;                    // all that is not free, up to the top
  SparseArray<std::uint32_t> size_at_;  // units of the block that starts there
  std::uint32_t top_ = 0;
  std::int64_t block_units_ = 0;
  std::int64_t hole_units_ = 0;  // holes, and what is on its way to be one
  BudgetTracker::LiveCount live_;
  UnitBitmap holes_;  // last: an allocation seldom reads it
};

// These are of each large allocation, and of its free.

inline bool ArenaUnits::take(const UnitRange& wanted) noexcept {
  if (!isBelowTop(wanted) || !taken_.tryTake(wanted.begin, wanted.units)) return false;
  settleAsBlock(wanted);
  return true;
}

inline void ArenaUnits::settleAsBlock(const UnitRange& claimed) noexcept {
  size_at_[claimed.begin] = claimed.units;
  block_units_ += claimed.units;
  live_.noteAllocated(Bytes{claimed.units} * kUnitBytes);
}

inline ArenaUnits::Freed ArenaUnits::free(std::uint32_t begin) noexcept {
  const std::uint32_t size = size_at_[begin];
  if (size == 0) return Freed::kNone;
  live_.noteFreed(Bytes{size & ~kShared} * kUnitBytes);
  if ((size & kShared) != 0) return Freed::kShared;
  release(begin);
  return Freed::kReleased;
}

inline void ArenaUnits::release(std::uint32_t begin) noexcept {
  const std::uint32_t units = std::exchange(size_at_[begin], 0) & ~kShared;
  block_units_ -= units;
  taken_.clear(begin, units);
}

template <typename Visit>
void ArenaUnits::forEachMapped(Visit&& visit) const {
  for (std::uint32_t unit = 0; unit < top_;) {
    const Run run = runFrom(unit);
    const std::uint32_t end = unit + run.units;
    if (run.is_free) visit(UnitRange{unit, run.units}, false);
    for (std::uint32_t at = unit; !run.is_free && at < end;) {
      std::uint32_t units = blockUnits(at);
      if (units > 0) {
        visit(UnitRange{at, units}, true);
      } else {
        bool is_hole = false;
        units = holes_.runLength(at, end, is_hole);
      }
      at += units;
    }
    unit = end;
  }
}

}  // namespace ebbtide::allocator
