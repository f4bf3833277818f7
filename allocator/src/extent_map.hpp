// ExtentMap: the extents of one pool's addresses. Cuts, joins, best fit; bookkeeping only.
//
//   ├ kLive ┤ kFree ├ kLive ┤ kUnmapped ├ kFree ├──────── kUnmapped ────────┤
//
// Adjacent free extents are one, and adjacent unmapped ones. Whoever maps or unmaps takes the
// extent as kBusy, drops the lock, and settles it afterwards. Not thread-safe: the pool calls it
// under its lock.
#pragma once

#include <cstdint>

#include "extent.hpp"
#include "free_bins.hpp"
#include "size_class.hpp"
#include "sparse_array.hpp"
#include "unit_range.hpp"

namespace ebbtide::allocator {

class ExtentMap {
 public:
  static constexpr std::uint32_t kMostUnits = 1U << 31;  // so that no sum of two is too large

  // `page_units` is how many units are mapped at once; `units` a multiple, up to kMostUnits.
  ExtentMap(std::uint32_t units, std::uint32_t page_units);

  std::int64_t freeUnits() const noexcept { return free_.units(); }
  // The free units in whole pages. Where a page is many units it reads all extents that may hold
  // one.
  std::int64_t freePageUnits() const noexcept;

  // A block from what is mapped; 0 if no free extent is enough.
  ExtentId take(std::uint32_t units) noexcept;
  // The extent of a live block that starts there; 0 if none does.
  ExtentId liveAt(std::uint32_t begin) const noexcept;
  void giveBack(ExtentId block) noexcept;  // joins its free neighbours

  // For a block that needs pages: the run of free and unmapped neighbours that lacks least. Taken
  // as one kBusy extent; `missing` gets what has to be mapped in it, and may be up to the next
  // multiple of round_units more than necessary. Free units that the block has no need of are no
  // part of it, but for less than a page. 0 if the addresses are used up.
  ExtentId takeRun(std::uint32_t units, std::uint32_t round_units, UnitRanges& missing);
  // All of it is mapped now: a block of so many units at its front; the rest is free.
  void settleAsBlock(ExtentId run, std::uint32_t units) noexcept;
  // Nothing was mapped: as it was, with the same ranges missing.
  void settleAsBefore(ExtentId run, const UnitRanges& missing) noexcept;

  // Takes whole pages as one kBusy extent. They are of the smallest free extent that surely has
  // `units` in whole pages, else of the largest. 0 if no free extent has a whole page.
  ExtentId takePages(std::uint32_t units) noexcept;
  void settleAsUnmapped(ExtentId pages) noexcept;
  void settleAsFree(ExtentId pages) noexcept;  // it was not unmapped after all

  Extent& operator[](ExtentId id) noexcept { return extents_[id]; }
  const Extent& operator[](ExtentId id) const noexcept { return extents_[id]; }
  ExtentId first() const noexcept { return first_; }
  bool anyLive() const noexcept;  // reads all extents

 private:
  static constexpr int kRuns = 32;  // free extents that a search for a run begins at

  struct Run {
    ExtentId first = 0;  // that `begin` lies in
    std::uint32_t begin = 0, end = 0;
    std::uint32_t lacks = UINT32_MAX;  // units to be mapped
  };

  ExtentId newExtent(std::uint32_t begin, std::uint32_t units, ExtentState state) noexcept;
  void forget(ExtentId id) noexcept;
  ExtentId splitAfter(ExtentId id, std::uint32_t units) noexcept;  // returns the second part
  ExtentId splitOff(ExtentId id, std::uint32_t units) noexcept;    // both are in a bin
  void absorbAfter(ExtentId id) noexcept;                // its neighbour, which is in no bin
  void settle(ExtentId id, ExtentState state) noexcept;  // joins neighbours of that state
  FreeBins& binsOf(ExtentState state) noexcept {
    return state == ExtentState::kFree ? free_ : unmapped_;
  }
  bool isLoose(ExtentId id) const noexcept {
    return id != 0 && (extents_[id].state == ExtentState::kFree ||
                       extents_[id].state == ExtentState::kUnmapped);
  }
  UnitRange wholePagesOf(ExtentId id) const noexcept;
  Run runToTheRight(ExtentId first, std::uint32_t units) const noexcept;
  Run runToTheLeft(ExtentId last, std::uint32_t units) const noexcept;
  Run bestRun(std::uint32_t units) const noexcept;
  Run anyRun(std::uint32_t units) const noexcept;

  const std::uint32_t units_, page_units_;
  SparseArray<Extent> extents_;
  SparseArray<ExtentId> at_;  // by unit: the live block that starts there
  FreeBins free_, unmapped_;
  ExtentId first_ = 0;
  ExtentId unused_ = 0;        // records, chained by `next`
  std::uint32_t records_ = 0;  // ever made
};

}  // namespace ebbtide::allocator
