#include "cuda/cuda_blocks.hpp"

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "cuda/torch_blocks.hpp"

namespace ebbtide::plugin::cuda {

c10::Storage CudaBlocks::allocate(std::size_t bytes) const {
  const c10::cuda::CUDAGuard guard(device_);
  c10::Allocator* const allocator = c10::GetAllocator(c10::kCUDA);
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, allocator->allocate(bytes), allocator, true));
}

bool CudaBlocks::isOurs(const c10::Storage& storage) const noexcept {
  return storage.data_ptr().get_deleter() == TorchBlocks::deleter() &&
         storage.data() == storage.data_ptr().get_context() &&
         storage.device().index() == device_ &&
         heap_.ledger().isOf(storage.data(), c10::cuda::getCurrentCUDAStream(device_).stream());
}

FillPattern CudaBlocks::fillNew(FillPattern pattern) const noexcept {
  return TorchBlocks::fillNew(pattern);
}

// Not asked for today: no free of a GPU's block is kept (memory/dropped_blocks.hpp).
c10::Storage CudaBlocks::adopt(void* block, std::size_t bytes) const {
  return {c10::Storage::use_byte_size_t(), bytes,
          c10::DataPtr(block, block, TorchBlocks::deleter(), c10::Device(c10::kCUDA, device_)),
          c10::GetAllocator(c10::kCUDA), false};
}

}  // namespace ebbtide::plugin::cuda
