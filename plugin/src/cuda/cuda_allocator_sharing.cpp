// Private pools, peers, and other processes, as torch asks for them.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include "base/message_table.hpp"
#include "cuda/cuda_allocator.hpp"

namespace ebbtide::plugin::cuda {
namespace {

template <typename Torch>
concept TellsOfCaptures = requires(Torch& torch) {
  torch.markCaptureBegin(c10::DeviceIndex{0});
};

constexpr bool kPoolsMayBeCaptures = !TellsOfCaptures<torch_cuda::CUDAAllocator>;

}  // namespace

// Before a stream is captured, so that nothing is asked of the device once it is.
void CudaAllocator::beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                                        std::function<bool(cudaStream_t)> filter) {
  heaps_.heap(device).pools().begin(pool, std::move(filter));
  if (kPoolsMayBeCaptures) heaps_.heap(device).beginCapture();
}

void CudaAllocator::endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool) {
  heaps_.heap(device).pools().end(pool);
  if (kPoolsMayBeCaptures) heaps_.heap(device).endCapture();
}

void CudaAllocator::releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) {
  heaps_.heap(device).pools().release(pool);
  if (!heaps_.heap(device).pools().isUsed(pool)) foreign_.end(pool);
}

void CudaAllocator::setUseOnOOM(c10::DeviceIndex, c10::MempoolId_t, bool use_on_oom) {
  TORCH_CHECK_NOT_IMPLEMENTED(!use_on_oom,
                              withCode("ebbtide: a memory pool that serves others when memory is "
                                       "out is not supported. Make it with use_on_oom=False, or "
                                       "run without EBBTIDE_* variables"));
}

int CudaAllocator::getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t pool) {
  return heaps_.heap(device).pools().uses(pool);
}

void CudaAllocator::createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                                       std::shared_ptr<torch_cuda::CUDAAllocator> other) {
  heaps_.heap(device).pools().createOrIncrement(pool);
  if (other != nullptr) foreign_.add(pool, std::move(other));
}

bool CudaAllocator::checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t pool,
                                             const std::unordered_set<void*>& expected) {
  return heaps_.heap(device).ledger().hasExactly(pool, expected);
}

// Where blocks lie is the core's to decide; it cannot be made to repeat an earlier state.
std::shared_ptr<torch_cuda::AllocatorState> CudaAllocator::getCheckpointState(c10::DeviceIndex,
                                                                              c10::MempoolId_t) {
  TORCH_CHECK_NOT_IMPLEMENTED(false,
                              withCode("ebbtide: the state of a memory pool cannot be kept, which "
                                       "torch.compile's CUDA graph trees need. Use a mode without "
                                       "CUDA graphs, or torch.cuda.graph"));
}

torch_cuda::CheckpointDelta CudaAllocator::setCheckpointPoolState(
    c10::DeviceIndex, std::shared_ptr<torch_cuda::AllocatorState>) {
  TORCH_CHECK_NOT_IMPLEMENTED(false,
                              withCode("ebbtide: the state of a memory pool cannot be restored"));
}

torch_cuda::ShareableHandle CudaAllocator::shareIpcHandle(void* block) {
  DeviceHeap* const on = heaps_.heapOf(block);
  TORCH_CHECK(on != nullptr, "invalid device pointer: ", block);
  TORCH_CHECK_NOT_IMPLEMENTED(on->pages() != nullptr, "this device's memory cannot be shared");
  const Bytes bytes = on->memory().blockBytes(block);
  TORCH_CHECK(bytes > 0, "invalid device pointer: ", block);
  const auto handle = shared_.share(*on->pages(), block, bytes);
  return {.offset = static_cast<std::ptrdiff_t>(handle.offset_bytes), .handle = handle.text};
}

std::shared_ptr<void> CudaAllocator::getIpcDevPtr(std::string handle) {
  DeviceHeap& on = heaps_.heap(heaps_.source().currentDevice());
  TORCH_CHECK_NOT_IMPLEMENTED(on.pages() != nullptr, "this device's memory cannot be shared");
  return SharedPages::open(*on.pages(), handle,
                           [&on] { return on.memory().pool().waitForDevice(); });
}

void CudaAllocator::enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex device_to_access) {
  DeviceHeap& on = heaps_.heap(device_to_access);
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
cudaError_t CudaAllocator::memcpyAsync(void* target, int target_device, const void* source,
                                       int source_device, std::size_t bytes, cudaStream_t stream,
                                       bool peers) {
  if (peers || target_device == source_device) {
    return cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  return cudaMemcpyPeerAsync(target, target_device, source, source_device, bytes, stream);
}

}  // namespace ebbtide::plugin::cuda
