#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "faults.hpp"
#include "host_time.hpp"
#include "memory.hpp"
#include "settings.hpp"

namespace emulated_gpu {
namespace {

constexpr int kPoison = 0xA5;

// A device's pages.
struct PageFile {
  int descriptor = -1;
  std::vector<bool> taken;
  std::size_t next = 0;  // where to look for a free one
};

PageFile& fileOf(const Device& device) {
  static std::map<int, PageFile> files;
  PageFile& result = files[device.ordinal];
  if (result.descriptor < 0) {
    result.descriptor = memfd_create("emulated_gpu", MFD_CLOEXEC);
    const auto bytes = static_cast<off_t>(device.total_bytes);
    if (result.descriptor < 0 || ftruncate(result.descriptor, bytes) != 0) std::abort();
    result.taken.assign(device.total_bytes / kPageBytes, false);
  }
  return result;
}

struct Mapping {
  std::size_t bytes = 0;
  Handle* handle = nullptr;
};
std::map<CUdeviceptr, std::size_t> reservations;
std::map<CUdeviceptr, Mapping> mappings;

std::map<CUdeviceptr, Mapping>::iterator mappingAt(CUdeviceptr address) {
  auto found = mappings.upper_bound(address);
  if (found == mappings.begin()) return mappings.end();
  --found;
  return address < found->first + found->second.bytes ? found : mappings.end();
}

void* at(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

// Whether the range is whole mappings.
bool wholeMappings(CUdeviceptr begin, std::size_t bytes) {
  std::size_t seen = 0;
  while (seen < bytes) {
    const auto found = mappings.find(begin + seen);
    if (found == mappings.end()) return false;
    seen += found->second.bytes;
  }
  return seen == bytes;
}

bool free(CUdeviceptr begin, std::size_t bytes) {
  const auto next = mappings.lower_bound(begin);
  if (next != mappings.end() && next->first < begin + bytes) return false;
  return mappingAt(begin) == mappings.end();
}

bool reserved(CUdeviceptr begin, std::size_t bytes) {
  auto found = reservations.upper_bound(begin);
  if (found == reservations.begin()) return false;
  --found;
  return begin + bytes <= found->first + found->second;
}

}  // namespace

Handle* createPages(Device& device, std::size_t bytes, bool shareable) {
  if (refusePage() || device.used_bytes + bytes > device.total_bytes) return nullptr;
  PageFile& file = fileOf(device);
  const std::size_t all = file.taken.size();
  auto* const handle = new Handle;
  handle->device = &device;
  handle->shareable = shareable;
  for (std::size_t i = 0; i < all && handle->pages.size() * kPageBytes < bytes; ++i) {
    const std::size_t page = (file.next + i) % all;
    if (!file.taken[page]) handle->pages.push_back(page);
  }
  if (handle->pages.size() * kPageBytes < bytes) {
    delete handle;
    return nullptr;
  }
  for (const std::size_t page : handle->pages) file.taken[page] = true;
  file.next = (handle->pages.back() + 1) % all;
  device.used_bytes += bytes;
  device.most_used_bytes = std::max(device.most_used_bytes, device.used_bytes);
  HostTime::get().spend(timeTable().page_created * static_cast<double>(handle->pages.size()));
  return handle;
}

void release(Handle* handle) {
  if (--handle->references > 0) return;
  if (handle->file >= 0) {
    close(handle->file);
  } else {
    PageFile& file = fileOf(*handle->device);
    for (const std::size_t page : handle->pages) {
      file.taken[page] = false;
      HostTime::get().spend(timeTable().page_released);
      if (settings().clock) continue;
      fallocate(file.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(page * kPageBytes), kPageBytes);
    }
    handle->device->used_bytes -= handle->pages.size() * kPageBytes;
  }
  delete handle;
}

CUresult exportPage(int* descriptor, const Handle& handle) {
  if (!handle.shareable || handle.pages.size() != 1) return CUDA_ERROR_NOT_SUPPORTED;
  const std::string own = "/proc/self/fd/" + std::to_string(fileOf(*handle.device).descriptor);
  const int opened = open(own.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  lseek(opened, static_cast<off_t>(handle.pages[0] * kPageBytes), SEEK_SET);
  *descriptor = opened;
  return CUDA_SUCCESS;
}

CUresult importPage(Handle** handle, int descriptor) {
  const off_t offset = lseek(descriptor, 0, SEEK_CUR);
  if (offset < 0) return CUDA_ERROR_INVALID_VALUE;
  *handle = new Handle;
  (*handle)->device = &currentDevice();
  (*handle)->fresh = false;
  (*handle)->file = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  (*handle)->offset = static_cast<std::size_t>(offset);
  return CUDA_SUCCESS;
}

CUresult reserveAddresses(CUdeviceptr* begin, std::size_t bytes, std::size_t alignment) {
  if (bytes == 0 || bytes % kPageBytes != 0) return CUDA_ERROR_INVALID_VALUE;
  alignment = std::max(alignment, kPageBytes);
  // Mode *clock*: pages are of no file, and come when something is written.
  const int open = settings().clock ? PROT_READ | PROT_WRITE : PROT_NONE;
  void* const got =
      mmap(nullptr, bytes + alignment, open, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto raw = reinterpret_cast<CUdeviceptr>(got);
  *begin = (raw + alignment - 1) / alignment * alignment;
  if (*begin > raw) munmap(got, *begin - raw);
  if (raw + alignment > *begin) munmap(at(*begin + bytes), raw + alignment - *begin);
  reservations[*begin] = bytes;
  return CUDA_SUCCESS;
}

CUresult freeAddresses(CUdeviceptr begin, std::size_t bytes) {
  const auto found = reservations.find(begin);
  if (found == reservations.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!free(begin, bytes)) return CUDA_ERROR_INVALID_VALUE;
  munmap(at(begin), bytes);
  reservations.erase(found);
  return CUDA_SUCCESS;
}

CUresult mapPages(CUdeviceptr begin, std::size_t bytes, Handle* handle) {
  const std::size_t held = handle->file >= 0 ? kPageBytes : handle->pages.size() * kPageBytes;
  if (begin % kPageBytes != 0 || bytes != held) return CUDA_ERROR_INVALID_VALUE;
  if (!reserved(begin, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (!free(begin, bytes)) return CUDA_ERROR_ALREADY_MAPPED;
  const std::size_t pages = bytes / kPageBytes;
  HostTime::get().spend(timeTable().page_mapped * static_cast<double>(pages));
  HostTime::get().countPages(pages);
  for (std::size_t seen = 0; seen < bytes && !settings().clock; seen += kPageBytes) {
    const int file = handle->file >= 0 ? handle->file : fileOf(*handle->device).descriptor;
    const std::size_t offset =
        handle->file >= 0 ? handle->offset : handle->pages[seen / kPageBytes] * kPageBytes;
    void* const got = mmap(at(begin + seen), kPageBytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file,
                           static_cast<off_t>(offset));
    if (got == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  mappings[begin] = {bytes, handle};
  ++handle->references;
  return CUDA_SUCCESS;
}

// Waits for nothing, as the driver does not: work that comes late to the pages faults, in this
// process.
CUresult unmapPages(CUdeviceptr begin, std::size_t bytes) {
  if (!wholeMappings(begin, bytes)) return CUDA_ERROR_INVALID_VALUE;
  orderHostAccess("the host's cuMemUnmap", {at(begin), bytes, true});
  orderForget(at(begin), bytes);
  const std::size_t pages = bytes / kPageBytes;
  HostTime::get().spend(timeTable().page_unmapped * static_cast<double>(pages));
  HostTime::get().countPages(pages);
  for (auto each = mappings.find(begin); bytes > 0;) {
    const std::size_t size = each->second.bytes;
    if (!settings().clock) {
      mmap(at(each->first), size, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
    release(each->second.handle);
    each = mappings.erase(each);
    bytes -= size;
  }
  return CUDA_SUCCESS;
}

CUresult giveAccess(CUdeviceptr begin, std::size_t bytes) {
  if (!wholeMappings(begin, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t pages = bytes / kPageBytes;
  HostTime::get().spend(timeTable().page_access * static_cast<double>(pages));
  if (settings().clock) return CUDA_SUCCESS;
  if (mprotect(at(begin), bytes, PROT_READ | PROT_WRITE) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!settings().poison) return CUDA_SUCCESS;
  for (auto each = mappings.find(begin); each != mappings.end() && each->first < begin + bytes;
       ++each) {
    Handle& handle = *each->second.handle;
    if (handle.fresh) std::memset(at(each->first), kPoison, each->second.bytes);
    handle.fresh = false;
  }
  return CUDA_SUCCESS;
}

Handle* handleAt(CUdeviceptr address) {
  const auto found = mappingAt(address);
  return found == mappings.end() ? nullptr : found->second.handle;
}

}  // namespace emulated_gpu
