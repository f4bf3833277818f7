// StreamPool: the small slots and the large blocks of one stream, and their addresses.
//
// Bookkeeping under one lock; PoolResource maps and unmaps, with the lock dropped. If a block
// still lives when the pool goes, its addresses and pages stay.
#pragma once

#include "ebbtide/allocator/budget_tracker.hpp"
#include "ebbtide/allocator/placed_sequence.hpp"
#include "ebbtide/allocator/spin_lock.hpp"
#include "extent_map.hpp"
#include "reservation.hpp"
#include "small_area.hpp"

namespace ebbtide::allocator {

class StreamPool {
 public:
  // Throws std::bad_alloc when there are no addresses left.
  StreamPool(AddressSpace& space, BudgetTracker& tracker, Stream stream, Bytes reserve_bytes,
             Bytes alignment_bytes);
  ~StreamPool();
  StreamPool(const StreamPool&) = delete;
  StreamPool& operator=(const StreamPool&) = delete;

  Stream stream() const noexcept { return stream_; }
  bool owns(const void* pointer) const noexcept { return reservation_.owns(pointer); }

  std::byte* addressOf(std::uint32_t unit) const noexcept {
    return large_begin_ + Bytes{unit} * kUnitBytes;
  }
  // The live block that starts there; 0: none does.
  ExtentId blockAt(const void* pointer) const noexcept {
    const auto offset = static_cast<const std::byte*>(pointer) - large_begin_;
    return offset % kUnitBytes == 0 ? large.liveAt(static_cast<std::uint32_t>(offset / kUnitBytes))
                                    : 0;
  }

 private:
  const Stream stream_;
  Reservation reservation_;
  std::byte* const large_begin_;  // the small area lies before it

 public:
  // Guards all below; apart from what threads of other pools read to find theirs.
  alignas(64) SpinLock mutex;
  SmallArea small;
  ExtentMap large;
  BudgetTracker::LiveCount live;
  std::int64_t allocations = 0;
  bool keeps_mapped = false;  // free pages are not to be unmapped
};

}  // namespace ebbtide::allocator
