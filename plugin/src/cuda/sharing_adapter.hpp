// SharingAdapter: what torch asks of its allocator about other devices and other processes.
//
// Thread rule: any thread.
#pragma once

#include <memory>
#include <string>

#include "cuda/history_adapter.hpp"
#include "cuda/shared_pages.hpp"

namespace ebbtide::plugin::cuda {

class SharingAdapter : public HistoryAdapter {
 public:
  torch_cuda::ShareableHandle shareIpcHandle(void* block) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override;
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex device_to_access) override;
  cudaError_t memcpyAsync(void* target, int target_device, const void* source, int source_device,
                          std::size_t bytes, cudaStream_t stream, bool peers) override;

 protected:
  using HistoryAdapter::HistoryAdapter;
  SharedPages& sharedPages() noexcept { return shared_; }

 private:
  SharedPages shared_;
};

}  // namespace ebbtide::plugin::cuda
