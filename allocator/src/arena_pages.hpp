// ArenaPages: the pages of one lane's arena: maps those that a place lacks, unmaps those that no
// block lies on.
//
//   arena   ├ hole ┤ mapped ├ hole ┤ mapped ├ hole ┤   addresses of no sequence
//                    ├ block ┤                      top
//
// A place needs pages for itself alone. They come from the budget's room. If it lacks room, free
// pages are unmapped: the pools', other arenas', then those here that the step needs last.
//
// Thread rule: any thread. Pages move under paging_, which is taken before the lane's lock; the
// pools' slow lock may be held before both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

#include "ebbtide/allocator/address_space.hpp"
#include "ebbtide/allocator/budget_tracker.hpp"
#include "ebbtide/allocator/mapped_extent.hpp"
#include "ebbtide/allocator/pool_resource.hpp"
#include "lane_state.hpp"
#include "reservation.hpp"
#include "unit_range.hpp"

namespace ebbtide::allocator {

class ArenaPages {
 public:
  // Unmaps pages of the other lanes without blocks, and credits them; no lock of a lane is held.
  using UnmapElsewhere = std::function<void(Bytes need_bytes)>;

  // The units of `lane` are those of `addresses`. Upstream waits for the device, too.
  ArenaPages(AddressSpace& space, BudgetTracker& tracker, PoolResource& upstream,
             const Reservation& addresses, LockedLane& lane, UnmapElsewhere unmap_elsewhere);

  // A sequence so high may come. As far as there are addresses: what lies above goes upstream.
  void raiseTop(std::uint32_t height_units) noexcept;

  // Maps the pages that a place lacks, and takes a block there. kTaken: another block has come
  // meanwhile. kShort: there are no pages for it.
  PlacementOutcome mapAndTake(const UnitRange& wanted) noexcept;

  // Unmaps what no block lies on, and credits it; returns how many bytes.
  Bytes unmapFree(Bytes need_bytes) noexcept;
  Bytes freeBytes() const noexcept;  // in whole pages

  void describe(Stream stream, MappedExtents& out) const;  // adds all that is mapped

  void lockForFork() noexcept { paging_.lock(); }
  void unlockAfterFork() noexcept { paging_.unlock(); }

 private:
  using Paging = std::lock_guard<std::mutex>;  // of paging_: nobody else's page is on its way

  Bytes holeBytes(const UnitRange& within) const noexcept;
  UnitRange pagesAround(const UnitRange& wanted, std::uint32_t step_units) const noexcept;
  bool mapHoles(const Paging& paging, const UnitRange& wanted) noexcept;
  bool mapHolesIn(const Paging&, const UnitRange& pages, const UnitRange& wanted) noexcept;
  template <typename Visit>
  void forEachFreeRun(Visit&& visit) const;
  UnitRanges nextPlaces(std::size_t count) const;
  UnitRanges runsToUnmap(const Paging&, Bytes need_bytes) const;
  Bytes claimFree(const Paging&, UnitRanges& runs, Bytes need_bytes) noexcept;
  Bytes unmapSome(const Paging& paging, Bytes need_bytes) noexcept;

  AddressSpace& space_;
  BudgetTracker& tracker_;
  PoolResource& upstream_;
  const Reservation& addresses_;
  LockedLane& lane_;
  const UnmapElsewhere unmap_elsewhere_;
  const std::uint32_t page_units_;
  mutable std::mutex paging_;  // held while pages are mapped and unmapped
};

}  // namespace ebbtide::allocator
