// CudaAllocator: torch's interface to DeviceHeaps; for torch 2.11 to 2.15. It has the functions for
// blocks, and derives from those that have the rest (devices_adapter.hpp).
//
// Thread rule: any thread.
#pragma once

#include "cuda/sharing_adapter.hpp"
#include "cuda/torch_blocks.hpp"

namespace ebbtide::plugin::cuda {

class CudaAllocator final : public SharingAdapter {
 public:
  // One at a time (TorchBlocks). Throws c10::Error where PYTORCH_CUDA_ALLOC_CONF is none.
  CudaAllocator(std::unique_ptr<DeviceSource> source, DeviceHeaps::BudgetOf budget_of,
                DeviceHeaps::Warn warn = nullptr)
      : SharingAdapter(std::move(source), std::move(budget_of), std::move(warn)) {}

  c10::DataPtr allocate(std::size_t bytes) override { return blocks_.allocate(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return TorchBlocks::deleter(); }
  void copy_data(void* target, const void* source, std::size_t bytes) const override;
  void* raw_alloc(std::size_t bytes) override { return blocks_.take(bytes); }
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override {
    return blocks_.take(bytes, stream);
  }
  void raw_delete(void* block) override { blocks_.free(block); }
  using torch_cuda::CUDAAllocator::recordStream;
  void recordStream(const c10::DataPtr& block, c10::cuda::CUDAStream stream) override {
    blocks_.recordStream(block, stream);
  }
  void* getBaseAllocation(void* block, std::size_t* bytes) override;

 private:
  TorchBlocks blocks_{heaps(), foreignPools(), sharedPages()};
};

}  // namespace ebbtide::plugin::cuda
