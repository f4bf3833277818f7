#include "cuda/sharing_adapter.hpp"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

namespace ebbtide::plugin::cuda {

torch_cuda::ShareableHandle SharingAdapter::shareIpcHandle(void* block) {
  DeviceHeap* const on = heaps().heapOf(block);
  TORCH_CHECK(on != nullptr, "invalid device pointer: ", block);
  TORCH_CHECK_NOT_IMPLEMENTED(on->pages() != nullptr, "this device's memory cannot be shared");
  const Bytes bytes = on->memory().blockBytes(block);
  TORCH_CHECK(bytes > 0, "invalid device pointer: ", block);
  const auto handle = shared_.share(*on->pages(), block, bytes);
  return {.offset = static_cast<std::ptrdiff_t>(handle.offset_bytes), .handle = handle.text};
}

std::shared_ptr<void> SharingAdapter::getIpcDevPtr(std::string handle) {
  DeviceHeap& on = heaps().heap(heaps().source().currentDevice());
  TORCH_CHECK_NOT_IMPLEMENTED(on.pages() != nullptr, "this device's memory cannot be shared");
  return SharedPages::open(*on.pages(), handle,
                           [&on] { return on.memory().pool().waitForDevice(); });
}

void SharingAdapter::enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex device_to_access) {
  DeviceHeap& on = heaps().heap(device_to_access);
  const c10::cuda::CUDAGuard guard(device);
  const cudaError_t error = cudaDeviceEnablePeerAccess(device_to_access, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
  } else {
    C10_CUDA_CHECK(error);
  }
  TORCH_CHECK(on.pages() != nullptr && on.pages()->allowPeer(device), "CUDA device ",
              static_cast<int>(device), " gets no access to the pages of device ",
              static_cast<int>(device_to_access));
}

// Pages that are mapped for one device only are copied by the driver's own way between devices.
cudaError_t SharingAdapter::memcpyAsync(void* target, int target_device, const void* source,
                                        int source_device, std::size_t bytes, cudaStream_t stream,
                                        bool peers) {
  if (peers || target_device == source_device) {
    return cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  return cudaMemcpyPeerAsync(target, target_device, source, source_device, bytes, stream);
}

}  // namespace ebbtide::plugin::cuda
