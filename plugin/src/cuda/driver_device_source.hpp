// DriverDeviceSource: this process's GPUs.
#pragma once

#include <mutex>

#include "cuda/device_source.hpp"
#include "ebbtide/allocator/cuda/driver.hpp"

namespace ebbtide::plugin::cuda {

class DriverDeviceSource final : public DeviceSource {
 public:
  DeviceParts open(c10::DeviceIndex device) override;
  c10::DeviceIndex currentDevice() override;
  cudaStream_t currentStream(c10::DeviceIndex device) override;

 private:
  const allocator::cuda::Driver& driver();  // throws c10::Error

  std::once_flag once_;
  allocator::cuda::DriverResult driver_;
};

}  // namespace ebbtide::plugin::cuda
