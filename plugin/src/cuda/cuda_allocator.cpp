#include "cuda/cuda_allocator.hpp"

#include <c10/cuda/CUDAException.h>

namespace ebbtide::plugin::cuda {

void CudaAllocator::copy_data(void* target, const void* source, std::size_t bytes) const {
  C10_CUDA_CHECK(cudaMemcpy(target, source, bytes, cudaMemcpyDeviceToDevice));
}

void* CudaAllocator::getBaseAllocation(void* block, std::size_t* bytes) {
  const HeapLedger::Range range = blocks_.rangeAround(block);
  if (bytes != nullptr) *bytes = static_cast<std::size_t>(range.bytes);
  return range.begin;
}

}  // namespace ebbtide::plugin::cuda
