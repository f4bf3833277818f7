#include "ebbtide/allocator/cuda/address_space.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <new>

namespace ebbtide::allocator::cuda {
namespace {

constexpr std::size_t kAlignment = std::size_t{2} << 20;

void* pointerTo(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): the driver's type
}

CUmemAccessDesc readAndWrite(int ordinal) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = ordinal;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

}  // namespace

CudaAddressSpace::CudaAddressSpace(const Device& device)
    : device_(device), access_{readAndWrite(device.ordinal)} {}

CudaAddressSpace::Address CudaAddressSpace::address(const void* pointer) noexcept {
  return reinterpret_cast<Address>(pointer);
}

void* CudaAddressSpace::reserve(Bytes bytes) noexcept {
  const DriverScope scope(device_);
  Address begin = 0;
  const auto alignment = std::max(kAlignment, static_cast<std::size_t>(device_.page_bytes));
  if (device_.driver->pages.addressReserve(&begin, static_cast<std::size_t>(bytes), alignment, 0,
                                           0) != CUDA_SUCCESS) {
    return nullptr;
  }
  try {
    const auto pages = static_cast<std::size_t>(bytes / device_.page_bytes);
    const std::lock_guard lock(mutex_);
    reservations_[begin] = {.bytes = bytes, .mapped = std::vector<bool>(pages)};
  } catch (const std::bad_alloc&) {
    device_.driver->pages.addressFree(begin, static_cast<std::size_t>(bytes));
    return nullptr;
  }
  return pointerTo(begin);
}

void CudaAddressSpace::release(void* begin, Bytes bytes) noexcept {
  std::vector<bool> mapped;
  {
    const std::lock_guard lock(mutex_);
    const auto found = reservations_.find(address(begin));
    if (found == reservations_.end()) return;
    mapped = std::move(found->second.mapped);
    reservations_.erase(found);
  }
  const DriverScope scope(device_);
  for (std::size_t page = 0; page < mapped.size(); ++page) {
    if (!mapped[page]) continue;
    unmapPages(address(begin) + page * static_cast<std::size_t>(device_.page_bytes),
               device_.page_bytes);
  }
  device_.driver->pages.addressFree(address(begin), static_cast<std::size_t>(bytes));
}

bool CudaAddressSpace::mapPage(Address at) noexcept {
  const CUmemAllocationProp properties = pageProperties(device_);
  const auto bytes = static_cast<std::size_t>(device_.page_bytes);
  CUmemGenericAllocationHandle handle = 0;
  if (device_.driver->pages.create(&handle, bytes, &properties, 0) != CUDA_SUCCESS) return false;
  const bool mapped = device_.driver->pages.map(at, bytes, 0, handle, 0) == CUDA_SUCCESS;
  device_.driver->pages.release(handle);
  return mapped;
}

bool CudaAddressSpace::map(void* begin, Bytes bytes) noexcept {
  const DriverScope scope(device_);
  Bytes done = 0;
  while (done < bytes && mapPage(address(begin) + static_cast<Address>(done))) {
    done += device_.page_bytes;
  }
  // Marked before the access is granted: a peer that is allowed meanwhile is granted twice, not
  // left out.
  mark(address(begin), done, true);
  if (done == bytes && grantAccess(address(begin), bytes)) return true;
  if (done > 0) unmap(begin, done);
  return false;
}

bool CudaAddressSpace::grantAccess(Address begin, Bytes bytes) noexcept {
  const std::lock_guard lock(mutex_);
  return device_.driver->pages.setAccess(begin, static_cast<std::size_t>(bytes), access_.data(),
                                         access_.size()) == CUDA_SUCCESS;
}

void CudaAddressSpace::unmap(void* begin, Bytes bytes) noexcept {
  const DriverScope scope(device_);
  mark(address(begin), bytes, false);
  unmapPages(address(begin), bytes);
}

void CudaAddressSpace::unmapPages(Address begin, Bytes bytes) noexcept {
  if (device_.driver->pages.unmap(begin, static_cast<std::size_t>(bytes)) == CUDA_SUCCESS) return;
  const auto page = static_cast<std::size_t>(device_.page_bytes);
  for (Bytes done = 0; done < bytes; done += device_.page_bytes) {
    device_.driver->pages.unmap(begin + static_cast<Address>(done), page);
  }
}

void CudaAddressSpace::mark(Address begin, Bytes bytes, bool mapped) {
  const std::lock_guard lock(mutex_);
  const auto found = std::prev(reservations_.upper_bound(begin));
  auto page =
      static_cast<std::size_t>(begin - found->first) / static_cast<std::size_t>(device_.page_bytes);
  for (Bytes done = 0; done < bytes; done += device_.page_bytes) {
    found->second.mapped[page++] = mapped;
  }
}

bool CudaAddressSpace::allowPeer(int ordinal) noexcept {
  const DriverScope scope(device_);
  const std::lock_guard lock(mutex_);
  const auto same = [ordinal](const CUmemAccessDesc& a) { return a.location.id == ordinal; };
  if (std::any_of(access_.begin(), access_.end(), same)) return true;
  const CUmemAccessDesc access = readAndWrite(ordinal);
  const auto page = static_cast<std::size_t>(device_.page_bytes);
  for (const auto& [begin, reservation] : reservations_) {
    for (std::size_t at = 0; at < reservation.mapped.size(); ++at) {
      if (reservation.mapped[at] &&
          device_.driver->pages.setAccess(begin + at * page, page, &access, 1) != CUDA_SUCCESS) {
        return false;
      }
    }
  }
  access_.push_back(access);
  return true;
}

std::optional<std::vector<int>> CudaAddressSpace::exportPages(const void* begin,
                                                              Bytes bytes) noexcept {
  if (!device_.shareable) return std::nullopt;
  const DriverScope scope(device_);
  const auto page = static_cast<Address>(device_.page_bytes);
  std::vector<int> files;
  const Address end = address(begin) + static_cast<Address>(bytes);
  for (Address at = address(begin) / page * page; at < end; at += page) {
    CUmemGenericAllocationHandle handle = 0;
    int file = -1;
    if (device_.driver->pages.retainHandle(&handle, pointerTo(at)) == CUDA_SUCCESS) {
      if (device_.driver->pages.exportHandle(
              &file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != CUDA_SUCCESS) {
        file = -1;
      }
      device_.driver->pages.release(handle);
    }
    if (file < 0) {
      for (const int opened : files) ::close(opened);
      return std::nullopt;
    }
    // A program that is started meanwhile would keep the page in use.
    ::fcntl(file, F_SETFD, FD_CLOEXEC);
    files.push_back(file);
  }
  return files;
}

bool CudaAddressSpace::importPage(Address at, int file) noexcept {
  CUmemGenericAllocationHandle handle = 0;
  const auto as_handle = pointerTo(static_cast<CUdeviceptr>(file));
  if (device_.driver->pages.importHandle(
          &handle, as_handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS) {
    return false;
  }
  const auto bytes = static_cast<std::size_t>(device_.page_bytes);
  const bool mapped = device_.driver->pages.map(at, bytes, 0, handle, 0) == CUDA_SUCCESS;
  device_.driver->pages.release(handle);
  return mapped;
}

void* CudaAddressSpace::importPages(const std::vector<int>& files) noexcept {
  const Bytes bytes = static_cast<Bytes>(files.size()) * device_.page_bytes;
  void* const begin = reserve(bytes);
  if (begin == nullptr) return nullptr;
  const DriverScope scope(device_);
  Bytes done = 0;
  for (const int file : files) {
    if (!importPage(address(begin) + static_cast<Address>(done), file)) break;
    done += device_.page_bytes;
  }
  mark(address(begin), done, true);  // as in map(): before the access
  if (done == bytes && grantAccess(address(begin), bytes)) return begin;
  release(begin, bytes);
  return nullptr;
}

}  // namespace ebbtide::allocator::cuda
