// PlacedLane: where one stream's blocks are placed, and how far it is in its step.
//
//   arena   ├────── mapped as blocks come ──────┤ addresses without memory
//              ├ block ┤   ├ hole ┤            top   holes are unmapped, and count as taken
//
// Streams share no addresses, so a place is only reused in the order of its stream.
//
// Thread rule: any thread. paging_ before lock_; the pools' slow lock may be held before both.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "ebbtide/allocator/ledger.hpp"
#include "ebbtide/allocator/placed_sequence.hpp"
#include "ebbtide/allocator/planned_resource.hpp"
#include "ebbtide/allocator/pool_resource.hpp"
#include "ebbtide/allocator/spin_lock.hpp"
#include "reservation.hpp"
#include "unit_bitmap.hpp"

namespace ebbtide::allocator {

class PlacedLane {
 public:
  // Throws std::bad_alloc when there are no addresses left.
  PlacedLane(AddressSpace& space, Ledger& ledger, PoolResource& upstream, Stream stream,
             Bytes reserve_bytes);
  ~PlacedLane();

  Stream stream() const noexcept { return stream_; }
  bool owns(const void* pointer) const noexcept { return reservation_.owns(pointer); }

  // Of any thread, or of this one only.
  void begin(std::shared_ptr<const PlacedSequence> sequence, bool this_thread_only) noexcept;
  void beginPhase(std::size_t phase) noexcept;

  // The address of the expected block, if that is this one and nothing lies there.
  void* place(std::size_t request_bytes) noexcept;
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

  void describe(MappedStretches& out) const;  // adds all that is mapped

  struct Counters {
    std::int64_t requests = 0;  // while a sequence was followed
    std::int64_t placed = 0, deviations = 0, late = 0, lent = 0;
  };
  Counters counters() const noexcept;
  std::optional<PlanDeviation> firstDeviation() const noexcept;  // since begin()

  void lockForFork() noexcept;
  void unlockAfterFork() noexcept;

 private:
  struct Stretch {
    std::uint32_t begin, units;

    std::int64_t end() const noexcept { return std::int64_t{begin} + units; }
  };
  static constexpr std::uint32_t kShared = 1U << 31;  // in size_at_: recordStream() was called

  std::byte* addressOf(std::uint32_t unit) const noexcept {
    return reservation_.begin() + Bytes{unit} * kUnitBytes;
  }
  std::uint32_t unitOf(const void* block) const noexcept {
    return static_cast<std::uint32_t>(
        (static_cast<const std::byte*>(block) - reservation_.begin()) / kUnitBytes);
  }
  const PlacedBlock* advance(std::uint32_t units) noexcept;
  void noteDeviation(std::uint32_t units) noexcept;
  static std::uint32_t unitsFor(std::size_t request_bytes) noexcept {
    return static_cast<std::uint32_t>((request_bytes - 1) / kUnitBytes + 1);
  }
  bool take(const Stretch& wanted) noexcept;
  Stretch highestFree(std::uint32_t units) const noexcept;
  void releaseUnit(std::uint32_t unit) noexcept;
  // lock_ is held.
  bool mayLackPages(const Stretch& wanted) const noexcept {
    return !short_of_pages_ && wanted.end() <= height_ && (wanted.end() > top_ || hole_units_ > 0);
  }
  std::vector<Stretch> unmappedIn(const Stretch& wanted) const;
  Bytes unmappedBytes(const Stretch& wanted) const;
  std::int64_t topFor(std::int64_t end) const noexcept;
  bool mapFor(const Stretch& wanted) noexcept;
  bool mapMissing(const Stretch& missing) noexcept;
  void fill(const Stretch& hole) noexcept;
  template <typename Visit>
  void forEachFreeRun(Visit&& visit) const;
  std::vector<Stretch> freeRuns() const;

  AddressSpace& space_;
  Ledger& ledger_;
  PoolResource& upstream_;
  const Stream stream_;
  const std::uint32_t page_units_;
  Reservation reservation_;

  mutable std::mutex paging_;             // guards holes_
  std::vector<Stretch> holes_;            // unmapped below top_, whole pages
  std::atomic<std::uint32_t> height_{0};  // of the sequences that there were, in whole pages

  // Guards all below; apart from what is read without it.
  alignas(64) mutable SpinLock lock_;
  UnitBitmap taken_;                    // blocks, and holes
  SparseArray<std::uint32_t> size_at_;  // units of the live block that starts there
  std::uint32_t top_ = 0;               // all above is unmapped; written with paging_ held, too
  bool short_of_pages_ = false;         // in this step: no more are asked for
  Ledger::LiveCount live_;
  std::shared_ptr<const PlacedSequence> sequence_;
  const void* only_thread_ = nullptr;
  std::size_t cursor_ = 0;
  std::int64_t live_units_ = 0, hole_units_ = 0;
  Counters counters_;
  std::optional<PlanDeviation> first_deviation_;
};

}  // namespace ebbtide::allocator
