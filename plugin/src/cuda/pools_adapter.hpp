// PoolsAdapter: what torch asks of its allocator about private memory pools, and the captures of
// graphs that allocate there.
//
// Thread rule: any thread.
#pragma once

#include <functional>
#include <memory>
#include <unordered_set>

#include "cuda/devices_adapter.hpp"
#include "cuda/foreign_pools.hpp"

namespace ebbtide::plugin::cuda {

class PoolsAdapter : public DevicesAdapter {
 public:
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

  // Torch after 2.11 calls these, too; no `override`, since earlier versions lack them. There,
  // allocation to a pool stands for a capture.
  void markCaptureBegin(c10::DeviceIndex device) { heaps().heap(device).beginCapture(); }
  void markCaptureEnd(c10::DeviceIndex device) { heaps().heap(device).endCapture(); }

 protected:
  using DevicesAdapter::DevicesAdapter;
  ForeignPools& foreignPools() noexcept { return foreign_; }

 private:
  ForeignPools foreign_;
};

}  // namespace ebbtide::plugin::cuda
