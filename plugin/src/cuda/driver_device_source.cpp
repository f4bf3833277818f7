#include "cuda/driver_device_source.hpp"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <chrono>

#include "base/message_table.hpp"
#include "ebbtide/allocator/cuda/stream_events.hpp"

namespace ebbtide::plugin::cuda {
namespace {

constexpr allocator::Bytes kAlignmentBytes = 512;  // torch's kernels load as much at once
// Addresses for each stream, as a multiple of the device's memory: blocks that stay divide them.
constexpr allocator::Bytes kAddressFactor = 2;
// A collective may wait for a rank that writes a checkpoint, say. Each of an allocation's attempts
// waits as long, so one fails after some minutes: before NCCL gives up, which is after ten.
constexpr std::chrono::seconds kLongestWait{60};

}  // namespace

const allocator::cuda::Driver& DriverDeviceSource::driver() {
  std::call_once(once_, [this] { driver_ = allocator::cuda::loadDriver(); });
  TORCH_CHECK(driver_.problem.empty(), driver_.problem);
  return driver_.driver;
}

DeviceParts DriverDeviceSource::open(c10::DeviceIndex index) {
  const auto result = allocator::cuda::openDevice(driver(), index);
  TORCH_CHECK(result.device.has_value(),
              withCode("ebbtide: " + result.problem +
                       ", so no budget can be kept on it. EBBTIDE_ALLOCATOR=torch keeps PyTorch's "
                       "allocator"));
  const allocator::cuda::Device device = *result.device;
  auto space = std::make_unique<allocator::cuda::CudaAddressSpace>(device);
  DeviceParts parts;
  parts.pages = space.get();
  parts.space = std::move(space);
  parts.events = std::make_unique<allocator::cuda::CudaStreamEvents>(device);
  parts.memory_info = [device] { return device.memoryInfo(); };
  const allocator::Bytes total = parts.memory_info().total_bytes;
  TORCH_CHECK(total > 0, "CUDA device ", static_cast<int>(index), " does not tell its memory");
  parts.options = {
      .alignment_bytes = kAlignmentBytes,
      .reserve_bytes = kAddressFactor * (total / device.page_bytes + 1) * device.page_bytes,
      .longest_wait = kLongestWait};
  return parts;
}

c10::DeviceIndex DriverDeviceSource::currentDevice() {
  c10::DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  return device;
}

cudaStream_t DriverDeviceSource::currentStream(c10::DeviceIndex device) {
  return c10::cuda::getCurrentCUDAStream(device).stream();
}

}  // namespace ebbtide::plugin::cuda
