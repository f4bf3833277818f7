// PlacedLane: where one stream's blocks are placed, and how far it is in its step.
//
//   arena   ├ hole ┤ mapped ├ hole ┤ mapped ├ hole ┤   addresses of no sequence
//                    ├ block ┤                      top
//
// Up to the top, what is not mapped is a hole, and counts as taken; a place needs pages for itself
// alone. One that gets none sends its block upstream, and no other. Streams share no addresses, so
// a place is only reused in the order of its stream.
//
// Steps and blocks are in placed_lane.cpp, pages in placed_lane_pages.cpp.
// Thread rule: any thread. paging_ before lock_; the pools' slow lock may be held before both.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "ebbtide/allocator/budget_tracker.hpp"
#include "ebbtide/allocator/placed_resource.hpp"
#include "ebbtide/allocator/placed_sequence.hpp"
#include "ebbtide/allocator/pool_resource.hpp"
#include "ebbtide/allocator/spin_lock.hpp"
#include "reservation.hpp"
#include "unit_bitmap.hpp"
#include "unit_range.hpp"

namespace ebbtide::allocator {

class PlacedLane {
 public:
  // Unmaps pages of the other lanes without blocks, and credits them; no lock of a lane is held.
  using UnmapElsewhere = std::function<void(Bytes need_bytes)>;

  // Throws std::bad_alloc when there are no addresses left.
  PlacedLane(AddressSpace& space, BudgetTracker& tracker, PoolResource& upstream, Stream stream,
             Bytes reserve_bytes, UnmapElsewhere unmap_elsewhere);
  ~PlacedLane();

  Stream stream() const noexcept { return stream_; }
  bool owns(const void* pointer) const noexcept { return reservation_.owns(pointer); }

  // Of any thread, or of this one only.
  void begin(std::shared_ptr<const PlacedSequence> sequence, bool this_thread_only) noexcept;
  void beginPhase(std::size_t phase) noexcept;

  // kElsewhere: foreseen upstream. kTaken: by a block. kShort: no pages for it.
  enum class Outcome { kPlaced, kElsewhere, kUnforeseen, kTaken, kShort };
  struct Attempt {
    void* block = nullptr;  // nullptr: it goes upstream
    Outcome outcome = Outcome::kElsewhere;
    bool followed = false, deviated = false;
    std::size_t cursor_before = 0, cursor_after = 0;
    Bytes bytes = 0;
  };
  // The address of the expected block, if that is this one and nothing lies there.
  Attempt place(std::size_t request_bytes) noexcept;
  // Nor could upstream serve it: asked for again, it is the expected one still.
  void takeBack(const Attempt& attempt) noexcept;
  // While no step was foreseen: may a block lie on free pages of the arena?
  bool mayLend(std::size_t request_bytes) const noexcept;
  // Where such pages are, nullptr if nowhere; the step whose places they are goes elsewhere for as
  // long.
  void* lend(std::size_t request_bytes) noexcept;
  // What becomes of a block that is given back; kNone where no live block starts.
  enum class Freed { kNone, kReleased, kShared };
  Freed free(const void* block) noexcept;
  void release(const void* block) noexcept;  // a shared one, later
  Bytes blockBytes(const void* block) const noexcept;
  void markShared(const void* block) noexcept;

  // Unmaps what no block lies on.
  Bytes unmapFree(Bytes need_bytes) noexcept;
  Bytes freeBytes() const noexcept;

  void describe(MappedExtents& out) const;  // adds all that is mapped

  struct Counters {
    // late: the place was taken, or there were no pages for it.
    std::int64_t placed = 0, deviations = 0, late = 0, lent = 0;
    PlacedBytes bytes;
  };
  Counters counters() const noexcept;
  std::optional<PlanDeviation> firstDeviation() const noexcept;  // since begin()

  void lockForFork() noexcept;
  void unlockAfterFork() noexcept;

 private:
  using Held = std::lock_guard<SpinLock>;      // of lock_
  using Paging = std::lock_guard<std::mutex>;  // of paging_
  // Either lock keeps holes and top as they are.
  struct EitherHeld {
    EitherHeld(const Held& /*held*/) noexcept {}
    EitherHeld(const Paging& /*paging*/) noexcept {}
  };
  static constexpr std::uint32_t kShared = 1U << 31;  // in size_at_: recordStream() was called

  std::byte* addressOf(std::uint32_t unit) const noexcept {
    return reservation_.begin() + Bytes{unit} * kUnitBytes;
  }
  std::uint32_t unitOf(const void* block) const noexcept {
    return static_cast<std::uint32_t>(
        (static_cast<const std::byte*>(block) - reservation_.begin()) / kUnitBytes);
  }
  const PlacedBlock* advance(const Held& held, std::uint32_t units) noexcept;
  std::uint32_t expect(const Held& held, std::uint32_t units, Attempt& attempt) noexcept;
  void noteDeviation(const Held&, std::uint32_t units) noexcept;
  void count(const Held&, const Attempt& attempt, int sign) noexcept;
  static std::uint32_t unitsFor(std::size_t request_bytes) noexcept {
    return static_cast<std::uint32_t>((request_bytes - 1) / kUnitBytes + 1);
  }
  bool take(const Held& held, const UnitRange& wanted) noexcept;
  void noteBlock(const Held&, const UnitRange& block) noexcept;
  UnitRange highestFree(std::uint32_t units) const noexcept;
  void releaseUnit(const Held&, std::uint32_t unit) noexcept;
  bool lacksOnlyPages(const Held&, const UnitRange& wanted) const noexcept;
  void takeFreeIn(const Held&, const UnitRange& wanted) noexcept;
  void giveFreeIn(const Held& held, const UnitRange& wanted) noexcept;
  void raiseTop(Bytes height_units) noexcept;
  UnitRange pagesFor(EitherHeld, const UnitRange& wanted, std::uint32_t step_units) const noexcept;
  // visit(hole) goes on while it is true.
  template <typename Visit>
  void forEachHole(EitherHeld, const UnitRange& within, Visit&& visit) const;
  Bytes holeBytes(EitherHeld held, const UnitRange& pages) const noexcept;
  Outcome mapAndTake(const UnitRange& wanted) noexcept;
  bool mapHoles(const Paging& paging, const UnitRange& wanted) noexcept;
  bool mapHolesIn(const Paging& paging, const UnitRange& pages, const UnitRange& wanted) noexcept;
  void fill(const Held&, const UnitRange& hole, const UnitRange& wanted) noexcept;
  template <typename Visit>
  void forEachFreeRun(Visit&& visit) const;
  UnitRanges freeRuns(const Paging&, Bytes need_bytes) const;
  UnitRanges nextPlaces(std::size_t count) const;
  Bytes unmapSome(const Paging& paging, Bytes need_bytes) noexcept;

  AddressSpace& space_;
  BudgetTracker& tracker_;
  PoolResource& upstream_;
  const Stream stream_;
  const UnmapElsewhere unmap_elsewhere_;
  const std::uint32_t page_units_;
  Reservation reservation_;

  mutable std::mutex paging_;  // held while pages are mapped and unmapped

  // Guards all below.
  alignas(64) mutable SpinLock lock_;
  UnitBitmap taken_;                    // blocks, and holes
  UnitBitmap holes_;                    // whole pages; written with paging_ held, too
  SparseArray<std::uint32_t> size_at_;  // units of the live block that starts there
  std::uint32_t top_ = 0;               // of the sequences that there were; as holes_
  BudgetTracker::LiveCount live_;
  std::shared_ptr<const PlacedSequence> sequence_;
  const void* only_thread_ = nullptr;
  std::size_t cursor_ = 0;
  std::int64_t live_units_ = 0, hole_units_ = 0;
  Counters counters_;
  std::optional<PlanDeviation> first_deviation_;
};

}  // namespace ebbtide::allocator
