// CudaLanes: DeviceLanes of one GPU. A lane is a stream, by torch's id.
#pragma once

#include <c10/core/Device.h>

#include "cuda/device_heap.hpp"
#include "device/torch/device_lanes.hpp"

namespace ebbtide::plugin::cuda {

class CudaLanes final : public DeviceLanes {
 public:
  // The heap outlives it.
  CudaLanes(c10::DeviceIndex device, DeviceHeap& heap) : device_(device), heap_(heap) {}

  Lane now() const noexcept override;
  // kElsewhere also while a private pool is recorded to: torch says no more of a capture.
  Capture capture() const noexcept override;
  bool switchTo(Lane lane) const noexcept override;
  void readHere(const c10::Storage& storage) const override;
  bool backwardElsewhere() const noexcept override { return true; }

 private:
  const c10::DeviceIndex device_;
  DeviceHeap& heap_;
};

}  // namespace ebbtide::plugin::cuda
