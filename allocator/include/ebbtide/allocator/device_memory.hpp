// DeviceMemory: the memory of one device under a budget; the resources put together.
//
//   allocate ─► ReclaimingResource   on failure: evict, try again
//            ─► ObservedResource     tells of blocks
//            ─► RecordingResource    notes a step's requests
//            ─► PlacedResource       placed addresses ─┬─ pages: BudgetTracker, AddressSpace
//            ─► PoolResource         best fit ─────────┘
//
// Thread rule: every function may be called from any thread. No lock is held while the reclaimer or
// the observer runs; while the driver does, only those that other slow paths wait for.
#pragma once

#include <chrono>
#include <memory>

#include "ebbtide/allocator/address_space.hpp"
#include "ebbtide/allocator/budget_tracker.hpp"
#include "ebbtide/allocator/mapped_extent.hpp"
#include "ebbtide/allocator/observed_resource.hpp"
#include "ebbtide/allocator/placed_resource.hpp"
#include "ebbtide/allocator/pool_resource.hpp"
#include "ebbtide/allocator/reclaiming_resource.hpp"
#include "ebbtide/allocator/recording_resource.hpp"
#include "ebbtide/allocator/stream_events.hpp"

namespace ebbtide::allocator {

struct Statistics {
  Bytes budget_bytes = kUnlimited;
  Bytes margin_bytes = 0;          // of the budget, held by others
  Bytes allocated_bytes = 0;       // live blocks
  Bytes allocated_peak_bytes = 0;  // since the last resetPeaks()
  Bytes mapped_bytes = 0;          // live, cached and slack
  Bytes mapped_peak_bytes = 0;     // since the last resetPeaks()
  Bytes used_peak_bytes = 0;       // the same with the margin of the same moment
  Bytes cached_bytes = 0;          // mapped, in no block, and free to be mapped elsewhere
  Bytes slack_at_peak_bytes = 0;   // free beside small blocks, in their chunks, at the live peak
  std::int64_t allocations = 0;
  std::int64_t planned_allocations = 0;  // at their planned address
  std::int64_t plan_deviations = 0;      // that were expected otherwise
  std::int64_t reclaims = 0;             // calls of the reclaimer
  std::int64_t budget_violations = 0;    // times that pages were let over the budget
};

class DeviceMemory final : public MemoryResource {
 public:
  struct Options {
    // The alignment of every block, and the step of the small sizes: 64 on the host, 512 on a GPU.
    Bytes alignment_bytes = 64;
    // Addresses for each stream, and as many for its arena: of what can be mapped at once a
    // multiple, since free pages move to where a block fits.
    Bytes reserve_bytes = Bytes{64} << 30;
    std::chrono::nanoseconds longest_wait = std::chrono::seconds{20};  // see PoolResource
  };

  DeviceMemory(std::unique_ptr<AddressSpace> space, std::unique_ptr<StreamEvents> events,
               const Options& options);
  ~DeviceMemory() override;

  void* allocate(std::size_t bytes, Stream stream) noexcept override;
  void deallocate(void* block) noexcept override;
  Bytes blockBytes(const void* block) const noexcept override;
  void recordStream(void* block, Stream stream) noexcept override;

  bool owns(const void* pointer) const noexcept;  // an address of a reservation of ours
  // What a request of this size takes for as long as it lives; kUnlimited where none could serve
  // it.
  Bytes blockBytesFor(std::size_t request_bytes) const noexcept;

  // Below what is mapped: free pages go now, the rest as blocks are freed.
  void setBudget(Bytes budget_bytes) noexcept;
  void setMargin(Bytes margin_bytes) noexcept;
  void setReclaimer(Reclaimer* reclaimer) noexcept;     // see ReclaimingResource
  void setObserver(Observer* observer) noexcept;        // see ObservedResource
  void setWatcher(BlockWatcher* watcher) noexcept;      // the same
  void limitOverrun(Bytes most_mapped_bytes) noexcept;  // see ReclaimingResource
  Bytes overrunLimitBytes() const noexcept;
  void releaseCached() noexcept;  // unmaps every free page
  void resetPeaks() noexcept;
  Statistics statistics() const noexcept;
  // All that is mapped, in the order of addresses. Each pool stands still while it is read;
  // together they are one moment's where no other thread allocates or frees. Throws std::bad_alloc.
  MappedExtents mappedExtents() const;

  PlacedResource& placed() noexcept { return placed_; }
  RecordingResource& recording() noexcept { return recording_; }
  PoolResource& pool() noexcept { return pool_; }
  BudgetTracker& budgetTracker() noexcept { return tracker_; }

  // For pthread_atfork: before the fork, and after it in both processes. Waits until no thread maps
  // or unmaps, so the child finds the locks free and the budget tracker right.
  void lockForFork() noexcept;
  void unlockAfterFork() noexcept;

 private:
  const std::unique_ptr<AddressSpace> space_;
  const std::unique_ptr<StreamEvents> events_;
  BudgetTracker tracker_;
  PoolResource pool_;
  PlacedResource placed_;
  RecordingResource recording_;
  ObservedResource observed_;
  ReclaimingResource reclaiming_;
  int fork_parent_ = 0;  // process
};

}  // namespace ebbtide::allocator
