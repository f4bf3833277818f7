// CudaAddressSpace: addresses and pages of one GPU, by the driver's virtual memory management.
//
//   reserve   cuMemAddressReserve
//   map       for each page: cuMemCreate, cuMemMap, cuMemRelease; then cuMemSetAccess for all
//   unmap     cuMemUnmap, which frees the pages
//
// A page's handle is released as soon as it is mapped: the mapping alone keeps the page, so that
// any range of pages can be unmapped. Who needs a handle later asks for it by the page's address.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "ebbtide/allocator/address_space.hpp"
#include "ebbtide/allocator/cuda/device.hpp"

namespace ebbtide::allocator::cuda {

class CudaAddressSpace final : public AddressSpace {
 public:
  explicit CudaAddressSpace(const Device& device);

  Bytes pageBytes() const noexcept override { return device_.page_bytes; }
  void* reserve(Bytes bytes) noexcept override;
  void release(void* begin, Bytes bytes) noexcept override;
  bool map(void* begin, Bytes bytes) noexcept override;
  // Returns with the pages mapped still when the driver refuses, as it does after an error of a
  // kernel: nothing can be mapped there any more, then.
  void unmap(void* begin, Bytes bytes) noexcept override;

  // From now on another device may read and write all pages, those that are mapped included; the
  // caller has enabled it between the contexts. False when the driver refuses.
  bool allowPeer(int ordinal) noexcept;

  // File descriptors of the pages that hold these bytes, in order, for other processes; the caller
  // closes them. nullopt when the device or the process's limits do not let it. The pages must
  // stay mapped until the others have opened them.
  std::optional<std::vector<int>> exportPages(const void* begin, Bytes bytes) noexcept;
  // Maps pages of another process's device memory, one for each file, in addresses of their own,
  // which release() gives back; nullptr when refused. The file descriptors stay the caller's.
  void* importPages(const std::vector<int>& files) noexcept;

 private:
  struct Reservation {
    Bytes bytes;
    std::vector<bool> mapped;  // by page
  };
  using Address = CUdeviceptr;

  static Address address(const void* pointer) noexcept;
  bool mapPage(Address at) noexcept;  // without access
  bool importPage(Address at, int file) noexcept;
  void unmapPages(Address begin, Bytes bytes) noexcept;
  bool grantAccess(Address begin, Bytes bytes) noexcept;
  void mark(Address begin, Bytes bytes, bool mapped);

  const Device device_;
  // Guards what follows. Held while access is granted, so that a new peer misses no page.
  std::mutex mutex_;
  std::map<Address, Reservation> reservations_;
  std::vector<CUmemAccessDesc> access_;
};

}  // namespace ebbtide::allocator::cuda
