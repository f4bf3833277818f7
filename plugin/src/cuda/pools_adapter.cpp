#include "cuda/pools_adapter.hpp"

#include <utility>

#include "base/message_table.hpp"

namespace ebbtide::plugin::cuda {
namespace {

template <typename Torch>
concept TellsOfCaptures = requires(Torch& torch) {
  torch.markCaptureBegin(c10::DeviceIndex{0});
};

constexpr bool kPoolsMayBeCaptures = !TellsOfCaptures<torch_cuda::CUDAAllocator>;

}  // namespace

// Before a stream is captured, so that nothing is asked of the device once it is.
void PoolsAdapter::beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                                       std::function<bool(cudaStream_t)> filter) {
  heaps().heap(device).pools().begin(pool, std::move(filter));
  if (kPoolsMayBeCaptures) heaps().heap(device).beginCapture();
}

void PoolsAdapter::endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool) {
  heaps().heap(device).pools().end(pool);
  if (kPoolsMayBeCaptures) heaps().heap(device).endCapture();
}

void PoolsAdapter::releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) {
  heaps().heap(device).pools().release(pool);
  if (!heaps().heap(device).pools().isUsed(pool)) foreign_.end(pool);
}

void PoolsAdapter::setUseOnOOM(c10::DeviceIndex, c10::MempoolId_t, bool use_on_oom) {
  TORCH_CHECK_NOT_IMPLEMENTED(!use_on_oom,
                              withCode("ebbtide: a memory pool that serves others when memory is "
                                       "out is not supported. Make it with use_on_oom=False, or "
                                       "run without EBBTIDE_* variables"));
}

int PoolsAdapter::getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t pool) {
  return heaps().heap(device).pools().uses(pool);
}

void PoolsAdapter::createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                                      std::shared_ptr<torch_cuda::CUDAAllocator> other) {
  heaps().heap(device).pools().createOrIncrement(pool);
  if (other != nullptr) foreign_.add(pool, std::move(other));
}

bool PoolsAdapter::checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t pool,
                                            const std::unordered_set<void*>& expected) {
  return heaps().heap(device).ledger().hasExactly(pool, expected);
}

// Where blocks lie is the core's to decide; it cannot be made to repeat an earlier state.
std::shared_ptr<torch_cuda::AllocatorState> PoolsAdapter::getCheckpointState(c10::DeviceIndex,
                                                                             c10::MempoolId_t) {
  TORCH_CHECK_NOT_IMPLEMENTED(false,
                              withCode("ebbtide: the state of a memory pool cannot be kept, which "
                                       "torch.compile's CUDA graph trees need. Use a mode without "
                                       "CUDA graphs, or torch.cuda.graph"));
}

torch_cuda::CheckpointDelta PoolsAdapter::setCheckpointPoolState(
    c10::DeviceIndex, std::shared_ptr<torch_cuda::AllocatorState>) {
  TORCH_CHECK_NOT_IMPLEMENTED(false,
                              withCode("ebbtide: the state of a memory pool cannot be restored"));
}

}  // namespace ebbtide::plugin::cuda
