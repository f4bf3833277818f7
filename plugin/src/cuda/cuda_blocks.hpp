// CudaBlocks: DeviceBlocks of one GPU, over our allocator there.
#pragma once

#include <c10/core/Device.h>

#include "cuda/device_heap.hpp"
#include "device/torch/device_blocks.hpp"

namespace ebbtide::plugin::cuda {

class CudaBlocks final : public DeviceBlocks {
 public:
  // The heap outlives it.
  CudaBlocks(c10::DeviceIndex device, DeviceHeap& heap) : device_(device), heap_(heap) {}
  c10::Storage allocate(std::size_t bytes) const override;
  bool isOurs(const c10::Storage& storage) const noexcept override;
  FillPattern fillNew(FillPattern pattern) const noexcept override;
  c10::Storage adopt(void* block, std::size_t bytes) const override;

 private:
  const c10::DeviceIndex device_;
  DeviceHeap& heap_;
};

}  // namespace ebbtide::plugin::cuda
