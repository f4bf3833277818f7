// DeviceHeap: one device's memory for torch: DeviceMemory within a DeviceBudget, and what torch
// wants to be told of it.
//
//   request ─► place (stream, private pool) ─► DeviceMemory ─► HeapLedger ─► block
//                                                  └─ none: what torch registered to free memory,
//                                                     the cache, once more each ─► OutOfMemoryError
//
// Thread rule: any thread; no lock of its own. DeviceMemory calls back, so it is called with
// neither the ledger's lock held nor the budget's.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <memory>

#include "cuda/device_budget.hpp"
#include "cuda/device_source.hpp"
#include "cuda/heap_ledger.hpp"
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
  bool owns(const void* pointer) const noexcept { return memory_->owns(pointer); }

  void releaseCached();
  Bytes largestCachedBytes();
  DeviceStatistics::Torch statistics();
  void resetPeaks();

  // Between them the device is asked nothing, and not waited for. They nest.
  void beginCapture() noexcept { events_->beginCapture(); }
  void endCapture() noexcept { events_->endCapture(); }
  bool capturing() const noexcept { return events_->isCapturing(); }

  DeviceBudget& budget() noexcept { return budget_; }
  const DeviceBudget& budget() const noexcept { return budget_; }
  HeapLedger& ledger() noexcept { return ledger_; }
  const HeapLedger& ledger() const noexcept { return ledger_; }
  PrivatePools& pools() noexcept { return pools_; }
  allocator::cuda::CudaAddressSpace* pages() noexcept { return pages_; }  // nullptr: not a GPU
  allocator::DeviceMemory& memory() noexcept { return *memory_; }

 private:
  bool mayMap(Bytes bytes) noexcept override;
  void onMapped(std::byte* begin, Bytes bytes) noexcept override;
  void onUnmapping(std::byte* begin, Bytes bytes) noexcept override;
  void onReusable(const void* block) noexcept override;

  using Context = HeapLedger::Context;

  // Sets events_.
  std::unique_ptr<allocator::DeviceMemory> openMemory(DeviceParts& parts);
  // nullptr: there is none
  void* take(std::size_t bytes, const Owner& owner, const Context& context);
  [[noreturn]] void failOutOfMemory(std::size_t bytes, const Owner& owner, const Context& context);
  // What can be freed.
  void* takeAfterFreeing(std::size_t bytes, const Owner& owner, const Context& context);
  void enter(void* block, std::size_t bytes, const Owner& owner, Context context);
  void report(const void* block, Bytes bytes) const noexcept;  // to torch's profiler

  const c10::DeviceIndex device_;
  allocator::cuda::CudaAddressSpace* const pages_;
  const HistorySettings& settings_;
  const OutOfMemoryObservers& observers_;

  PrivatePools pools_;  // its names last as long as the ledger and the memory have them
  HeapLedger ledger_;
  WatchedEvents* events_ = nullptr;  // memory_'s
  const std::unique_ptr<allocator::DeviceMemory> memory_;
  DeviceBudget budget_;
};

}  // namespace ebbtide::plugin::cuda
