// DeviceSource: where the allocator's devices come from: the driver (driver_device_source.hpp), or
// a test, over host memory.
#pragma once

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>
#include <memory>

#include "ebbtide/allocator/cuda/address_space.hpp"
#include "ebbtide/allocator/device_memory.hpp"

namespace ebbtide::plugin::cuda {

struct DeviceParts {
  std::unique_ptr<allocator::AddressSpace> space;
  std::unique_ptr<allocator::StreamEvents> events;
  allocator::DeviceMemory::Options options;
  std::function<allocator::cuda::MemoryInfo()> memory_info;  // of the whole device
  // How old a look at it may be when pages are mapped. A look takes as long as a page or some;
  // kernels and libraries that are loaded in a first step take hundreds of MiB in a second.
  std::chrono::nanoseconds measure_every = std::chrono::milliseconds{20};
  // The same as `space` where it is a GPU's: for peers and other processes. Not owned.
  allocator::cuda::CudaAddressSpace* pages = nullptr;
};

class DeviceSource {
 public:
  virtual ~DeviceSource() = default;
  // Once a device, when it is first used. Throws c10::Error.
  virtual DeviceParts open(c10::DeviceIndex device) = 0;
  virtual c10::DeviceIndex currentDevice() = 0;  // of this thread
  virtual cudaStream_t currentStream(c10::DeviceIndex device) = 0;
};

}  // namespace ebbtide::plugin::cuda
