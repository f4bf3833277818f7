// SharedPages: device memory that another process is to see, by the file descriptors of its pages.
//
//   this process: share(block) ─► text: process, page size, descriptors ─► other process:
//   open(text)
//
// The descriptors stay open until the block is freed; the other process takes copies of them from
// this one (pidfd_getfd), which the system allows among processes of one user that may trace each
// other.
//
// Thread rule: any thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "ebbtide/allocator/cuda/address_space.hpp"

namespace ebbtide::plugin::cuda {

class SharedPages {
 public:
  ~SharedPages();

  struct Handle {
    allocator::Bytes offset_bytes;  // of the block, in the first page
    std::string text;
  };
  // Throws c10::Error where the device or a limit does not allow it.
  Handle share(allocator::cuda::CudaAddressSpace& pages, const void* block, allocator::Bytes bytes);
  void onFreed(const void* block) noexcept;
  // Waits for the device; false where it does not finish.
  using DeviceIsIdle = std::function<bool()>;
  // Begins at the first page. Torch lets go of it while kernels may still use it, so the pages go
  // when the device is idle, and stay for good where it is not. Throws c10::Error.
  static std::shared_ptr<void> open(allocator::cuda::CudaAddressSpace& pages,
                                    const std::string& text, DeviceIsIdle deviceIsIdle);

 private:
  std::mutex mutex_;  // guards files_
  std::unordered_map<const void*, std::vector<int>> files_;
  std::atomic<bool> any_{false};
};

}  // namespace ebbtide::plugin::cuda
