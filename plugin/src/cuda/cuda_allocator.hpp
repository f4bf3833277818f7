// CudaAllocator: torch's interface to DeviceHeaps; for torch 2.11 to 2.15. What is asked of a
// device before it is open is nothing.
//
// Thread rule: any thread.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "cuda/annotations.hpp"
#include "cuda/device_heaps.hpp"
#include "cuda/foreign_pools.hpp"
#include "cuda/shared_pages.hpp"
#include "cuda/torch_blocks.hpp"

namespace ebbtide::plugin::cuda {

namespace torch_cuda = c10::cuda::CUDACachingAllocator;

class CudaAllocator final : public torch_cuda::CUDAAllocator {
 public:
  // One at a time (TorchBlocks). Throws c10::Error where PYTORCH_CUDA_ALLOC_CONF is none.
  CudaAllocator(std::unique_ptr<DeviceSource> source, DeviceHeaps::BudgetOf budget_of,
                DeviceHeaps::Warn warn = nullptr);

  DeviceHeaps& heaps() noexcept { return heaps_; }

  // c10::Allocator
  c10::DataPtr allocate(std::size_t bytes) override { return blocks_.allocate(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return TorchBlocks::deleter(); }
  void copy_data(void* target, const void* source, std::size_t bytes) const override;

  // c10::DeviceAllocator
  bool initialized() override { return heaps_.count() > 0; }
  void emptyCache(c10::MempoolId_t pool) override;
  using torch_cuda::CUDAAllocator::recordStream;
  void recordStream(const c10::DataPtr& block, c10::cuda::CUDAStream stream) override {
    blocks_.recordStream(block, stream);
  }
  DeviceStatistics::Torch getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;

  // Memory
  void* raw_alloc(std::size_t bytes) override { return blocks_.take(bytes); }
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override {
    return blocks_.take(bytes, stream);
  }
  void raw_delete(void* block) override { blocks_.free(block); }
  void init(int device_count) override { heaps_.init(device_count); }
  double getMemoryFraction(c10::DeviceIndex device) override { return heaps_.fraction(device); }
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override {
    heaps_.setFraction(device, fraction);
  }
  void enable(bool) override {}
  bool isEnabled() const override { return true; }
  void cacheInfo(c10::DeviceIndex device, std::size_t* largest) override;
  void* getBaseAllocation(void* block, std::size_t* bytes) override;
  std::vector<torch_cuda::StreamSegmentSize> getExpandableSegmentSizes(
      c10::DeviceIndex device) override;
  std::string name() override { return "ebbtide"; }

  // What happened (cuda_allocator_history.cpp)
  torch_cuda::SnapshotInfo snapshot(c10::MempoolId_t pool, bool include_traces) override;
  bool isHistoryEnabled() override { return heaps_.historySettings().enabled(); }
  void recordHistory(bool enabled, c10::CachingDeviceAllocator::CreateContextFn create_context,
                     std::size_t most_entries, c10::CachingDeviceAllocator::RecordContext when,
                     bool clear_history, const std::vector<std::string>& skip_actions) override;
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& pairs) override;
  void pushCompileContext(std::string& text) override { HistorySettings::pushCompileContext(text); }
  void popCompileContext() override { HistorySettings::popCompileContext(); }
  void setUserMetadata(const std::string& text) override {
    heaps_.historySettings().setUserMetadata(text);
  }
  std::string getUserMetadata() override { return heaps_.historySettings().userMetadata(); }
  void attachOutOfMemoryObserver(torch_cuda::OutOfMemoryObserver observer) override;
  void attachAllocatorTraceTracker(torch_cuda::AllocatorTraceTracker tracker) override;

  // What torches later than 2.11 ask for, too; no `override`, since the earlier ones do not know
  // it. Told of requests that a policy refuses: ours are told of as failures.
  void attachOomRejectionObserver(
      std::function<void(std::int64_t, std::size_t, std::size_t, std::size_t)>) {}
  bool supportsUserMetadata() { return true; }
  // A capture begins and ends; where torch does not say so, recording to a pool stands for it.
  void markCaptureBegin(c10::DeviceIndex device) { heaps_.heap(device).beginCapture(); }
  void markCaptureEnd(c10::DeviceIndex device) { heaps_.heap(device).endCapture(); }

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
  DeviceHeaps heaps_;
  SharedPages shared_;
  ForeignPools foreign_;
  TorchBlocks blocks_{heaps_, foreign_, shared_};
  Annotations annotations_;
  c10::ApproximateClockToUnixTimeConverter clock_;
};

}  // namespace ebbtide::plugin::cuda
