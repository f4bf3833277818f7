// What PoolResource consists of: finding the pool and bookkeeping in pool_resource.cpp, pages in
// pool_pages.cpp.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <mutex>

#include "deferred_frees.hpp"
#include "device_wait.hpp"
#include "ebbtide/allocator/pool_resource.hpp"
#include "stream_pool.hpp"

namespace ebbtide::allocator {

struct PoolResource::Impl {
  using Lock = std::unique_lock<std::mutex>;
  using PoolLock = std::unique_lock<SpinLock>;

  struct Request {
    std::uint32_t size_class = kLarge;
    std::uint32_t units = 0;  // of a large one

    static constexpr std::uint32_t kLarge = kClasses;
    bool isSmall() const noexcept { return size_class != kLarge; }
  };

  Impl(AddressSpace& space_in, StreamEvents& events_in, BudgetTracker& tracker_in,
       const Options& options_in)
      : space(space_in),
        events(events_in),
        tracker(tracker_in),
        options(options_in),
        page_bytes(space_in.pageBytes()),
        grain_shift(std::countr_zero(static_cast<std::uint64_t>(options_in.alignment_bytes))),
        device(events_in, options_in.longest_wait),
        deferred(events_in) {}
  ~Impl();

  Request requestFor(std::size_t bytes) const noexcept;
  StreamPool* poolFor(Stream stream) noexcept;
  StreamPool* ownerOf(const void* pointer) const noexcept;
  template <typename Visit>
  void forEachPool(Visit&& visit) const {
    const std::size_t count = pool_count.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i) visit(*pools[i].load(std::memory_order_relaxed));
  }

  // Of the stream's free extents, else what `otherwise` gets for the pool and the request.
  template <typename Otherwise>
  void* allocate(std::size_t bytes, Stream stream, Otherwise&& otherwise) noexcept;
  void* take(StreamPool& pool, const Request& request) noexcept;
  void* take(const PoolLock& lock, StreamPool& pool, const Request& request) noexcept;
  void* allocateSlow(StreamPool& pool, const Request& request) noexcept;
  bool awaitDeferred() noexcept;
  void* grow(StreamPool& pool, const Request& request, bool unmap_others) noexcept;
  void* growSmall(StreamPool& pool, const Request& request, bool unmap_others) noexcept;
  void* growLarge(StreamPool& pool, const Request& request, bool unmap_others) noexcept;
  bool mapAll(StreamPool& pool, const UnitRanges& missing) noexcept;
  template <typename MapAll>
  bool obtain(Bytes bytes, bool unmap_others, MapAll&& map_all) noexcept;
  bool debit(Bytes bytes, bool unmap_others) noexcept;
  void keepSlackLow(Bytes bytes) noexcept;
  void makeRoomForOther(Bytes bytes) noexcept;
  Bytes unmapFree(Bytes need, bool others_too) noexcept;
  Bytes unmapLarge(StreamPool& pool, Bytes need) noexcept;
  Bytes unmapSmall(StreamPool& pool, Bytes need) noexcept;
  void noteSlack(const PoolLock& lock, StreamPool& pool) noexcept;
  void drain(DeferredFrees::Look look) noexcept;
  void release(void* block) noexcept;

  AddressSpace& space;
  StreamEvents& events;
  BudgetTracker& tracker;
  const Options options;
  const Bytes page_bytes;
  const int grain_shift;  // grains are powers of two
  PageHolder* other = nullptr;
  DeviceWait device;
  DeferredFrees deferred;
  // Held while pages are mapped and unmapped, by one thread at a time, so that two that are short
  // do not hold back from each other what both need. Taken before any pool's.
  std::mutex slow;
  std::mutex making;  // of pools
  std::array<std::atomic<StreamPool*>, kMostStreams> pools{};
  std::atomic<std::size_t> pool_count{0};
  std::atomic<Bytes> seen_peak{0};
  std::atomic<Bytes> slack_at_peak{0};
};

}  // namespace ebbtide::allocator
