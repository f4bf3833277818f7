// CudaRandom: DeviceRandom of one GPU. Its generator's state is the seed and the offset (Philox).
// An op there that draws from the CPU's generator instead is found by that one's state.
#pragma once

#include <c10/core/Device.h>

#include "device/torch/device_random.hpp"

namespace ebbtide::plugin::cuda {

class CudaRandom final : public DeviceRandom {
 public:
  explicit CudaRandom(c10::DeviceIndex device) : device_(c10::kCUDA, device) {}
  std::vector<at::Generator> shared() const override;
  at::Generator make() const override;

 private:
  const c10::Device device_;
};

}  // namespace ebbtide::plugin::cuda
