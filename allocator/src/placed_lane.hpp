// PlacedLane: where one stream's blocks are placed.
//
//   request ─ SequenceCursor ─► its place ─ ArenaUnits ─► nothing lies there ─► block
//                                           └ ArenaPages: maps what it lacks
//
// A place needs pages for itself alone. One that gets none sends its block upstream, and no other.
// Streams share no addresses, so a place is only reused in the order of its stream.
//
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "arena_pages.hpp"
#include "ebbtide/allocator/budget_tracker.hpp"
#include "ebbtide/allocator/placed_resource.hpp"
#include "ebbtide/allocator/placed_sequence.hpp"
#include "ebbtide/allocator/pool_resource.hpp"
#include "lane_state.hpp"
#include "reservation.hpp"
#include "unit_range.hpp"

namespace ebbtide::allocator {

class PlacedLane {
 public:
  // Throws std::bad_alloc when there are no addresses left.
  PlacedLane(AddressSpace& space, BudgetTracker& tracker, PoolResource& upstream, Stream stream,
             Bytes reserve_bytes, ArenaPages::UnmapElsewhere unmap_elsewhere);
  ~PlacedLane();

  Stream stream() const noexcept { return stream_; }
  bool owns(const void* pointer) const noexcept { return addresses_.owns(pointer); }
  ArenaPages& pages() noexcept { return pages_; }

  // Of any thread, or of this one only.
  void begin(std::shared_ptr<const PlacedSequence> sequence, bool this_thread_only) noexcept;
  void beginPhase(std::size_t phase) noexcept;

  struct Attempt {
    void* block = nullptr;  // nullptr: it goes upstream
    bool followed = false;  // of a step that was foreseen; then the rest is for takeBack()
    SequenceCursor::Move move;
    PlacementRequest request;
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
  ArenaUnits::Freed free(const void* block) noexcept;
  void release(const void* block) noexcept;  // a shared one, later
  Bytes blockBytes(const void* block) const noexcept;
  void markShared(const void* block) noexcept;

  PlacementCounts counts() const noexcept;
  std::optional<PlanDeviation> firstDeviation() const noexcept;  // since begin()

  void lockForFork() noexcept;
  void unlockAfterFork() noexcept;

 private:
  UnitRange highestFree(std::uint32_t units) const noexcept;

  const Stream stream_;
  Reservation addresses_;
  LockedLane state_;
  ArenaPages pages_;
};

}  // namespace ebbtide::allocator
