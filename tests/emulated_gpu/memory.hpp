// The device's memory: pages of a file in memory, mapped where the driver's calls say; blocks of
// cudaMalloc; pinned memory of the host. Under the device's lock.
#pragma once

#include <cstddef>
#include <vector>

#include "device.hpp"

namespace emulated_gpu {

inline constexpr std::size_t kPageBytes = std::size_t{2} << 20;

// Physical memory of cuMemCreate. Mapping it, and each further handle, is a reference.
struct Handle {
  Device* device = nullptr;
  std::vector<std::size_t> pages;  // of the device's file
  int references = 1;
  bool shareable = false;
  bool fresh = true;  // its contents were never touched
  int file = -1;      // another process's: that page is at `offset`
  std::size_t offset = 0;
};

Handle* createPages(Device& device, std::size_t bytes, bool shareable);
void release(Handle* handle);
// A descriptor of its own, whose position tells where the page is.
CUresult exportPage(int* descriptor, const Handle& handle);
CUresult importPage(Handle** handle, int descriptor);

CUresult reserveAddresses(CUdeviceptr* begin, std::size_t bytes, std::size_t alignment);
CUresult freeAddresses(CUdeviceptr begin, std::size_t bytes);
CUresult mapPages(CUdeviceptr begin, std::size_t bytes, Handle* handle);
CUresult unmapPages(CUdeviceptr begin, std::size_t bytes);
CUresult giveAccess(CUdeviceptr begin, std::size_t bytes);
Handle* handleAt(CUdeviceptr address);

// Of the device, or pinned memory of the host where that is null.
CUresult allocateBlock(void** begin, std::size_t bytes, Device* device);
CUresult freeBlock(void* begin);
// In stream order: what is freed goes when the stream comes to it.
CUresult freeInOrder(void* begin, CUstream stream);
CUresult pinRange(void* begin, std::size_t bytes);
CUresult unpinRange(void* begin);

Device* deviceOf(const void* address);  // null: the host's
bool isPinned(const void* address);

CUresult copyBytes(void* to, const void* from, std::size_t bytes, CUstream stream);
CUresult copyRows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                  std::size_t bytes, std::size_t rows, CUstream stream);
CUresult fillBytes(void* begin, int value, std::size_t bytes, CUstream stream);

}  // namespace emulated_gpu
