// PoolResource: best fit over pages, a pool for each stream.
//
//   request ─ small ─► size-class slot ──────────────────────────────► block
//           └ large ─► smallest free extent that is enough, cut ─────► block
//                      └ none: pages for what free neighbours lack, debited first
//                        └ over the budget: free pages of this pool, of other streams, of other
//                          holders are unmapped, after a synchronize() where events are pending
//                          └ too few: nullptr
//
// Free neighbours are joined at once. A pool has addresses of its own, so streams share no lock and
// no extent; what moves between them is pages. Of more than kMostStreams streams the last get
// nothing. Blocks start at kUnitBytes, slots at the grain.
#pragma once

#include <chrono>
#include <memory>

#include "ebbtide/allocator/address_space.hpp"
#include "ebbtide/allocator/budget_tracker.hpp"
#include "ebbtide/allocator/mapped_extent.hpp"
#include "ebbtide/allocator/memory_resource.hpp"
#include "ebbtide/allocator/stream_events.hpp"

namespace ebbtide::allocator {

// Someone else's pages under the same budget tracker.
class PageHolder {
 public:
  virtual ~PageHolder() = default;
  // Unmaps pages without blocks, and credits them; returns how many bytes, at best need_bytes.
  virtual Bytes unmapFree(Bytes need_bytes) noexcept = 0;
  virtual Bytes freeBytes() const noexcept = 0;  // in whole pages: what it could unmap
};

class PoolResource final : public MemoryResource, public PageHolder {
 public:
  static constexpr std::size_t kMostStreams = 256;

  struct Options {
    Bytes alignment_bytes = 64;
    Bytes reserve_bytes = Bytes{64} << 30;  // addresses a stream
    // For a device that does not answer; what it may still use is not reused then.
    std::chrono::nanoseconds longest_wait = std::chrono::seconds{20};
  };

  PoolResource(AddressSpace& space, StreamEvents& events, BudgetTracker& tracker,
               const Options& options);
  ~PoolResource() override;

  // Not owned; before any allocation.
  void setOtherHolder(PageHolder* holder) noexcept;
  // The free pages of this stream's pool stay mapped, however short the budget is: a captured
  // graph, say, writes to them without asking.
  void keepMapped(Stream stream, bool keep) noexcept;

  void* allocate(std::size_t bytes, Stream stream) noexcept override;
  // As long as it takes no page from anybody: from this stream's free ones, and the budget's room.
  void* allocateFromOwn(std::size_t bytes, Stream stream) noexcept;
  void deallocate(void* block) noexcept override;
  Bytes blockBytes(const void* block) const noexcept override;
  void recordStream(void* block, Stream stream) noexcept override;

  Bytes unmapFree(Bytes need_bytes) noexcept override;  // the other holder's, too
  // Before the other holder maps so much: unmaps free pages of the pools for what would exceed the
  // budget, or the most that ever lived.
  void makeRoomForOther(Bytes bytes) noexcept;
  // What is mapped beyond the budget, as far as it is free: for whoever lowered the budget, or
  // freed.
  void unmapOverrun() noexcept;
  Bytes freeBytes() const noexcept override;
  Bytes cachedBytes() const noexcept;  // the other holder's, too
  // For all that is queued on any stream; false, with a message, after longest_wait.
  bool waitForDevice() noexcept;

  Bytes blockBytesFor(std::size_t request_bytes) const noexcept;  // kUnlimited: none could
  bool isSmall(std::size_t request_bytes) const noexcept;
  std::size_t mostSmallBytes() const noexcept;
  bool owns(const void* pointer) const noexcept;
  // Mapped for small blocks, and in none, when the budget tracker's live peak was last raised.
  Bytes slackAtPeakBytes() const noexcept;
  std::int64_t allocations() const noexcept;
  void describe(MappedExtents& out) const;  // adds all that is mapped

  void lockForFork() noexcept;
  void unlockAfterFork() noexcept;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide::allocator
