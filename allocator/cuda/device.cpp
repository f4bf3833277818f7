#include "ebbtide/allocator/cuda/device.hpp"

#include <bit>
#include <utility>

namespace ebbtide::allocator::cuda {
namespace {

bool attribute(const Driver& driver, CUdevice device, CUdevice_attribute which) {
  int value = 0;
  return driver.contexts.deviceGetAttribute(&value, which, device) == CUDA_SUCCESS && value != 0;
}

// What the device says it supports the system may refuse all the same (a container, say): a page is
// made to see.
void settleFlags(const Driver& driver, Device& device) {
  const Device asked = device;
  for (const auto& [rdma, shareable] :
       {std::pair{true, true}, {false, true}, {true, false}, {false, false}}) {
    device.rdma = asked.rdma && rdma;
    device.shareable = asked.shareable && shareable;
    const CUmemAllocationProp properties = pageProperties(device);
    CUmemGenericAllocationHandle handle = 0;
    const auto bytes = static_cast<std::size_t>(device.page_bytes);
    if (driver.pages.create(&handle, bytes, &properties, 0) == CUDA_SUCCESS) {
      driver.pages.release(handle);
      return;
    }
  }
}

DeviceResult refused(int ordinal, const std::string& why) {
  return {.device = std::nullopt, .problem = "CUDA device " + std::to_string(ordinal) + " " + why};
}

}  // namespace

MemoryInfo Device::memoryInfo() const noexcept {
  const DriverScope scope(*this);
  std::size_t free = 0, total = 0;
  if (driver->contexts.memoryInfo(&free, &total) != CUDA_SUCCESS) return {};
  return {.free_bytes = static_cast<Bytes>(free), .total_bytes = static_cast<Bytes>(total)};
}

DeviceResult openDevice(const Driver& driver, int ordinal) {
  CUdevice handle = 0;
  if (driver.contexts.init(0) != CUDA_SUCCESS) {
    return refused(ordinal, "is not there: CUDA does not start");
  }
  if (driver.contexts.deviceGet(&handle, ordinal) != CUDA_SUCCESS) {
    return refused(ordinal, "is not there");
  }
  if (!attribute(driver, handle, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) {
    return refused(ordinal, "has no virtual memory management");
  }
  Device device;
  device.driver = &driver;
  device.ordinal = ordinal;
  device.rdma =
      attribute(driver, handle, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
  device.shareable =
      attribute(driver, handle, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  if (driver.contexts.primaryContextRetain(&device.context, handle) != CUDA_SUCCESS) {
    return refused(ordinal, "gives no context: its memory may be full");
  }
  const CUmemAllocationProp properties = pageProperties(device);
  std::size_t page = 0;
  const DriverScope scope(device);
  if (driver.pages.granularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) !=
          CUDA_SUCCESS ||
      !std::has_single_bit(page)) {
    return refused(ordinal, "does not tell the size of its pages");
  }
  device.page_bytes = static_cast<Bytes>(page);
  settleFlags(driver, device);
  return {.device = device, .problem = {}};
}

CUmemAllocationProp pageProperties(const Device& device) noexcept {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device.ordinal;
  if (device.shareable) {
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }
  properties.allocFlags.gpuDirectRDMACapable = device.rdma ? 1 : 0;
  return properties;
}

DriverScope::DriverScope(const Device& device) noexcept
    : driver_(*device.driver), pushed_(driver_.contexts.push(device.context) == CUDA_SUCCESS) {
  driver_.contexts.exchangeCaptureMode(&mode_);
}

DriverScope::~DriverScope() {
  driver_.contexts.exchangeCaptureMode(&mode_);
  CUcontext popped = nullptr;
  if (pushed_) driver_.contexts.pop(&popped);
}

}  // namespace ebbtide::allocator::cuda
