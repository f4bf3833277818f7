// DevicesAdapter: what torch asks of its allocator about devices: their number, budgets, statistics
// and caches. A look at statistics opens no device.
//
// Torch's interface has some fifty functions, too many for one class. A chain of classes implements
// them. Each class has one concern, and owns what the concern needs. They cannot be siblings, since
// torch's class is no virtual base. From torch's class to the one that is made:
//
//   DevicesAdapter   DeviceHeaps
//   PoolsAdapter     ForeignPools
//   HistoryAdapter   Annotations
//   SharingAdapter   SharedPages
//   CudaAllocator    TorchBlocks, over all but the annotations
//
// The chain must override each function whose default throws (overrides_test.cpp).
//
// Thread rule: any thread.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device_heaps.hpp"

namespace ebbtide::plugin::cuda {

namespace torch_cuda = c10::cuda::CUDACachingAllocator;

class DevicesAdapter : public torch_cuda::CUDAAllocator {
 public:
  DeviceHeaps& heaps() noexcept { return heaps_; }

  bool initialized() override { return heaps_.count() > 0; }
  void init(int device_count) override { heaps_.init(device_count); }
  void enable(bool) override {}
  bool isEnabled() const override { return true; }
  std::string name() override { return "ebbtide"; }

  double getMemoryFraction(c10::DeviceIndex device) override { return heaps_.fraction(device); }
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override {
    heaps_.setFraction(device, fraction);
  }

  DeviceStatistics::Torch getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  std::vector<torch_cuda::StreamSegmentSize> getExpandableSegmentSizes(
      c10::DeviceIndex device) override;
  void cacheInfo(c10::DeviceIndex device, std::size_t* largest) override;
  void emptyCache(c10::MempoolId_t pool) override;

 protected:
  // Throws c10::Error where PYTORCH_CUDA_ALLOC_CONF is none.
  DevicesAdapter(std::unique_ptr<DeviceSource> source, DeviceHeaps::BudgetOf budget_of,
                 DeviceHeaps::Warn warn)
      : heaps_(std::move(source), std::move(budget_of), std::move(warn)) {}

 private:
  DeviceHeaps heaps_;
};

}  // namespace ebbtide::plugin::cuda
