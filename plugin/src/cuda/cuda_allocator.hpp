// CudaAllocator: torch's interface to DeviceHeap, one a device; for torch 2.11 to 2.15.
//
// A device is opened when memory of it is first asked for. What is said of one before (a fraction,
// a tracker) waits until then; what is asked of one then is nothing.
//
// Thread rule: any thread.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/fill_pattern.hpp"
#include "cuda/device_heap.hpp"
#include "cuda/foreign_pools.hpp"
#include "cuda/shared_pages.hpp"

namespace ebbtide::plugin::cuda {

namespace torch_cuda = c10::cuda::CUDACachingAllocator;

class CudaAllocator final : public torch_cuda::CUDAAllocator {
 public:
  using BudgetOf = std::function<Bytes(const DeviceHeap&)>;  // kUnlimited for none

  using Warn = std::function<void(const std::string&)>;  // one line, to be said

  // One at a time: what it allocates is freed through the one that was made last. Throws c10::Error
  // where PYTORCH_CUDA_ALLOC_CONF is none.
  CudaAllocator(std::unique_ptr<DeviceSource> source, BudgetOf budget_of, Warn warn = nullptr);
  ~CudaAllocator() override;

  static CudaAllocator* installed() noexcept;  // nullptr: none lives
  // Asked before a tensor gets memory; throws where it is to get none.
  static void refuseBy(void (*refuse)()) noexcept;

  // Of what it allocates.
  static c10::DeleterFnPtr deleter() noexcept { return &deleteBlock; }
  // What this thread allocates from now on is filled with the pattern, on the stream that it is
  // for. Returns the one before.
  static FillPattern fillNew(FillPattern pattern) noexcept;

  // For the start of a step: what others hold of the devices that are open is measured again.
  void measureMargins();
  // Of the device whose budget was exceeded, of several the one with most; nothing: none was.
  std::optional<allocator::Statistics> mostExceeded() const;
  // Somebody judges from now on whether a budget is possible: until then it may be exceeded.
  void letGoOver();
  // This device is trained on, and judged; nobody judges the others.
  void boundAllBut(c10::DeviceIndex device);
  DeviceHeap* openHeap(c10::DeviceIndex device) const noexcept;  // nullptr: not open
  DeviceHeap& heap(c10::DeviceIndex device);                     // opens it; throws c10::Error

  // c10::Allocator
  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* target, const void* source, std::size_t bytes) const override;

  // c10::DeviceAllocator
  bool initialized() override { return device_count_.load() > 0; }
  void emptyCache(c10::MempoolId_t pool) override;
  using torch_cuda::CUDAAllocator::recordStream;
  void recordStream(const c10::DataPtr& block, c10::cuda::CUDAStream stream) override;
  DeviceStatistics::Torch getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;

  // Memory
  void* raw_alloc(std::size_t bytes) override;
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override;
  void raw_delete(void* block) override;
  void init(int device_count) override;
  double getMemoryFraction(c10::DeviceIndex device) override;
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override;
  void enable(bool) override {}
  bool isEnabled() const override { return true; }
  void cacheInfo(c10::DeviceIndex device, std::size_t* largest) override;
  void* getBaseAllocation(void* block, std::size_t* bytes) override;
  std::vector<torch_cuda::StreamSegmentSize> getExpandableSegmentSizes(
      c10::DeviceIndex device) override;
  std::string name() override { return "ebbtide"; }

  // What happened (cuda_allocator_history.cpp)
  torch_cuda::SnapshotInfo snapshot(c10::MempoolId_t pool, bool include_traces) override;
  bool isHistoryEnabled() override { return settings_.enabled(); }
  void recordHistory(bool enabled, c10::CachingDeviceAllocator::CreateContextFn create_context,
                     std::size_t most_entries, c10::CachingDeviceAllocator::RecordContext when,
                     bool clear_history, const std::vector<std::string>& skip_actions) override;
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& pairs) override;
  void pushCompileContext(std::string& text) override { HistorySettings::pushCompileContext(text); }
  void popCompileContext() override { HistorySettings::popCompileContext(); }
  void setUserMetadata(const std::string& text) override { settings_.setUserMetadata(text); }
  std::string getUserMetadata() override { return settings_.userMetadata(); }
  void attachOutOfMemoryObserver(torch_cuda::OutOfMemoryObserver observer) override;
  void attachAllocatorTraceTracker(torch_cuda::AllocatorTraceTracker tracker) override;

  // What torches later than 2.11 ask for, too; no `override`, since the earlier ones do not know
  // it. Told of requests that a policy refuses: ours are told of as failures.
  void attachOomRejectionObserver(
      std::function<void(std::int64_t, std::size_t, std::size_t, std::size_t)>) {}
  bool supportsUserMetadata() { return true; }
  // A capture begins and ends; where torch does not say so, recording to a pool stands for it.
  void markCaptureBegin(c10::DeviceIndex device) { heap(device).beginCapture(); }
  void markCaptureEnd(c10::DeviceIndex device) { heap(device).endCapture(); }

  // Private pools, peers, other processes (cuda_allocator_sharing.cpp)
  void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool) override;
  void releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) override;
  // Called with false by ~MemPool, from which nothing may be thrown.
  void setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t pool, bool use_on_oom) override;
  // Keeps cached memory whole: pages are mapped and unmapped one by one, and none is cut.
  void setNoSplit(c10::DeviceIndex, c10::MempoolId_t) override {}
  int getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t pool) override;
  void createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                          std::shared_ptr<torch_cuda::CUDAAllocator> other) override;
  bool checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override;
  std::shared_ptr<torch_cuda::AllocatorState> getCheckpointState(c10::DeviceIndex device,
                                                                 c10::MempoolId_t pool) override;
  torch_cuda::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex device, std::shared_ptr<torch_cuda::AllocatorState> state) override;
  torch_cuda::ShareableHandle shareIpcHandle(void* block) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override;
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex device_to_access) override;
  cudaError_t memcpyAsync(void* target, int target_device, const void* source, int source_device,
                          std::size_t bytes, cudaStream_t stream, bool peers) override;

 private:
  static constexpr std::size_t kMostDevices = 128;

  void checkDevice(c10::DeviceIndex device) const;
  DeviceHeap* heapOf(const void* block) const noexcept;
  template <typename Visit>
  void forEachOpen(Visit&& visit) const;
  void* allocateOn(c10::DeviceIndex device, std::size_t bytes, cudaStream_t stream);
  static void deleteBlock(void* block);

  const std::unique_ptr<DeviceSource> source_;
  const BudgetOf budget_of_;
  const Warn warn_;
  HistorySettings settings_;
  OutOfMemoryObservers observers_;
  SharedPages shared_;
  ForeignPools foreign_;
  std::atomic<int> device_count_{0};
  std::array<std::atomic<DeviceHeap*>, kMostDevices> heaps_{};

  std::mutex mutex_;  // guards what follows, and the opening of devices
  bool may_go_over_ = false;
  std::array<double, kMostDevices> fractions_;
  std::size_t most_entries_ = 1;
  std::vector<torch_cuda::AllocatorTraceTracker> trackers_;
  std::vector<c10::CachingDeviceAllocator::AnnotationEntry> annotations_;  // a ring
  std::size_t next_annotation_ = 0;
  c10::ApproximateClockToUnixTimeConverter clock_;
};

template <typename Visit>
void CudaAllocator::forEachOpen(Visit&& visit) const {
  for (int device = 0; device < device_count_.load(); ++device) {
    if (DeviceHeap* const open = openHeap(static_cast<c10::DeviceIndex>(device))) visit(*open);
  }
}

}  // namespace ebbtide::plugin::cuda
