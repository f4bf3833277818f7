#include "cuda/cuda_allocator.hpp"

#include <c10/cuda/CUDAException.h>

#include <algorithm>
#include <utility>

namespace ebbtide::plugin::cuda {

CudaAllocator::CudaAllocator(std::unique_ptr<DeviceSource> source, DeviceHeaps::BudgetOf budget_of,
                             DeviceHeaps::Warn warn)
    : heaps_(std::move(source), std::move(budget_of), std::move(warn)) {}

void CudaAllocator::copy_data(void* target, const void* source, std::size_t bytes) const {
  C10_CUDA_CHECK(cudaMemcpy(target, source, bytes, cudaMemcpyDeviceToDevice));
}

void CudaAllocator::emptyCache(c10::MempoolId_t) {
  // Pools in use keep their pages, whichever pool is named; those that are not have no more than
  // cache.
  heaps_.forEachOpen([](DeviceHeap& heap) { heap.releaseCached(); });
}

// -----------------------------------------------------------------------------------------------
// statistics

DeviceStatistics::Torch CudaAllocator::getDeviceStats(c10::DeviceIndex device) {
  DeviceHeap* const open = heaps_.openHeap(device);
  return open == nullptr ? DeviceStatistics::Torch{} : open->statistics();
}

void CudaAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  if (DeviceHeap* const open = heaps_.openHeap(device)) open->ledger().resetAccumulated();
}

void CudaAllocator::resetPeakStats(c10::DeviceIndex device) {
  if (DeviceHeap* const open = heaps_.openHeap(device)) open->resetPeaks();
}

// cuDNN asks how large a workspace may be, and chooses a convolution's algorithm by it, whose bits
// differ. Asked without a bound, the answer is that of an idle device: neither the budget nor what
// happens to be free has a say. A workspace that does not fit is refused, as any block is.
void CudaAllocator::cacheInfo(c10::DeviceIndex device, std::size_t* largest) {
  DeviceHeap& on = heaps_.heap(device);
  if (*largest == 0) {
    *largest = static_cast<std::size_t>(on.budget().totalBytes());
    return;
  }
  *largest = std::max(*largest, static_cast<std::size_t>(on.largestCachedBytes()));
}

void* CudaAllocator::getBaseAllocation(void* block, std::size_t* bytes) {
  const HeapLedger::Range range = blocks_.rangeAround(block);
  if (bytes != nullptr) *bytes = static_cast<std::size_t>(range.bytes);
  return range.begin;
}

std::vector<torch_cuda::StreamSegmentSize> CudaAllocator::getExpandableSegmentSizes(
    c10::DeviceIndex device) {
  DeviceHeap* const open = heaps_.openHeap(device);
  if (open == nullptr) return {};
  return open->ledger().segmentSizes();
}

}  // namespace ebbtide::plugin::cuda
