// DeviceHeap: one device's memory for torch: DeviceMemory, and what torch wants to be told of it.
//
//   request ─► place (stream, private pool) ─► DeviceMemory ─► table, statistics, history ─► block
//                                                  └─ none: what torch registered to free memory,
//                                                     the cache, once more each ─► OutOfMemoryError
//
// Thread rule: any thread. One mutex guards the table, the statistics and the history; it is held
// neither in a call of DeviceMemory, which calls back, nor in one of torch's, trackers apart.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include "cuda/block_table.hpp"
#include "cuda/device_budget.hpp"
#include "cuda/device_source.hpp"
#include "cuda/device_statistics.hpp"
#include "cuda/history.hpp"
#include "cuda/out_of_memory_observers.hpp"
#include "cuda/private_pools.hpp"
#include "cuda/watched_address_space.hpp"
#include "cuda/watched_events.hpp"

namespace ebbtide::plugin::cuda {

class DeviceHeap final : private PageWatcher, private ReuseWatcher {
 public:
  // The settings and the observers outlive it.
  DeviceHeap(c10::DeviceIndex device, DeviceParts parts, const HistorySettings& settings,
             const OutOfMemoryObservers& observers);

  // Throws c10::OutOfMemoryError. Never nullptr.
  void* allocate(std::size_t bytes, cudaStream_t stream);
  void free(void* block);  // throws c10::Error for what is no live block of ours
  // `there` is the stream's device.
  void recordStream(void* block, cudaStream_t stream, DeviceHeap& there);
  // Is it a live block for that stream, of no private pool?
  bool isOf(const void* block, cudaStream_t stream) const noexcept;

  bool owns(const void* pointer) const noexcept { return memory_->owns(pointer); }
  // Of the run of pages that the block lies in; nullopt when it is no live block.
  struct Range {
    void* begin;
    Bytes bytes;
  };
  std::optional<Range> rangeAround(const void* block);

  DeviceBudget& budget() noexcept { return budget_; }
  const DeviceBudget& budget() const noexcept { return budget_; }
  void releaseCached();
  Bytes largestCachedBytes();

  DeviceStatistics::Torch statistics();
  void resetAccumulated();
  void resetPeaks();
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> snapshot(const c10::MempoolId_t& pool);
  std::vector<TraceEntry> history(
      const std::function<c10::time_t(c10::approx_time_t)>& microseconds);
  void setHistory(std::size_t most_entries, bool clear);
  void addTracker(c10::CachingDeviceAllocator::AllocatorTraceTracker tracker);
  std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize> segmentSizes();

  PrivatePools& pools() noexcept { return pools_; }
  // Between them the device is asked nothing, and not waited for. They nest.
  void beginCapture() noexcept { events_->beginCapture(); }
  void endCapture() noexcept { events_->endCapture(); }
  bool capturing() const noexcept { return events_->isCapturing(); }
  bool hasExactly(const c10::MempoolId_t& pool, const std::unordered_set<void*>& blocks);

  allocator::cuda::CudaAddressSpace* pages() noexcept { return pages_; }  // nullptr: not a GPU
  allocator::DeviceMemory& memory() noexcept { return *memory_; }

 private:
  bool mayMap(Bytes bytes) noexcept override;
  void onMapped(std::byte* begin, Bytes bytes) noexcept override;
  void onUnmapping(std::byte* begin, Bytes bytes) noexcept override;
  void onReusable(const void* block) noexcept override;

  using Context = std::shared_ptr<c10::GatheredContext>;

  // Sets events_.
  std::unique_ptr<allocator::DeviceMemory> openMemory(DeviceParts& parts);
  // nullptr: there is none
  void* take(std::size_t bytes, const Owner& owner, const Context& context);
  [[noreturn]] void failOutOfMemory(std::size_t bytes, const Owner& owner, const Context& context);
  // What can be freed.
  void* takeAfterFreeing(std::size_t bytes, const Owner& owner, const Context& context);
  void enter(void* block, std::size_t bytes, const Owner& owner, Context context);
  using Held = std::lock_guard<std::mutex>;  // of mutex_
  // `context` of the call that frees, if it is known.
  void finishFree(const Held&, const void* at, Block& block, const Context& context) noexcept;
  void report(const void* block, Bytes bytes) const noexcept;  // to torch's profiler

  const c10::DeviceIndex device_;
  allocator::cuda::CudaAddressSpace* const pages_;
  const HistorySettings& settings_;
  const OutOfMemoryObservers& observers_;

  mutable std::mutex mutex_;  // guards what follows, up to memory_
  BlockTable table_;
  DeviceStatistics statistics_;
  History history_;
  std::uint64_t allocations_ = 0;

  WatchedEvents* events_ = nullptr;  // memory_'s
  const std::unique_ptr<allocator::DeviceMemory> memory_;
  DeviceBudget budget_;
  PrivatePools pools_;
};

}  // namespace ebbtide::plugin::cuda
