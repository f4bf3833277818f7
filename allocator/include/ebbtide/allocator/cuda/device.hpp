// Device: one GPU as the driver sees it, with its primary context.
#pragma once

#include <optional>
#include <string>

#include "ebbtide/allocator/bytes.hpp"
#include "ebbtide/allocator/cuda/driver.hpp"

namespace ebbtide::allocator::cuda {

struct MemoryInfo {
  Bytes free_bytes = 0;
  Bytes total_bytes = 0;
};

struct Device {
  const Driver* driver = nullptr;  // outlives the device
  int ordinal = 0;                 // as CUDA_VISIBLE_DEVICES numbers it
  CUcontext context = nullptr;     // retained until the process ends
  Bytes page_bytes = 0;            // what is mapped at once; a power of two
  bool rdma = false;               // pages can be registered with network cards (NCCL)
  bool shareable = false;          // pages can be handed to other processes as file descriptors

  // Of the whole device, all processes counted. Zeros where the driver refuses.
  MemoryInfo memoryInfo() const noexcept;
};

struct DeviceResult {
  std::optional<Device> device;
  std::string problem;  // one sentence, where there is none
};

// Makes the device's primary context if nobody has: some hundred MiB, and a second.
DeviceResult openDevice(const Driver& driver, int ordinal);

// Pages as `device` makes them.
CUmemAllocationProp pageProperties(const Device& device) noexcept;

// While one is alive this thread's driver calls go to the device, and a graph capture that is
// under way elsewhere is not broken by them.
class DriverScope {
 public:
  explicit DriverScope(const Device& device) noexcept;
  ~DriverScope();
  DriverScope(const DriverScope&) = delete;
  DriverScope& operator=(const DriverScope&) = delete;

 private:
  const Driver& driver_;
  bool pushed_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace ebbtide::allocator::cuda
