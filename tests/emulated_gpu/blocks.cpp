#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <map>
#include <set>

#include "captures.hpp"
#include "host_time.hpp"
#include "memory.hpp"
#include "settings.hpp"

namespace emulated_gpu {
namespace {

constexpr int kPoison = 0xA5;
constexpr std::size_t kLeastBlock = 512, kLargestSmall = kPageBytes / 2;

struct Block {
  std::size_t bytes = 0;
  Device* device = nullptr;  // null: pinned memory of the host
  bool registered = false;   // the program's own memory
  bool small = false;        // of a page that is shared with others of its size
};
using Blocks = std::map<std::uintptr_t, Block>;
Blocks blocks;

// Small blocks share pages, as cudaMalloc's do: a page for each power of two.
struct SmallBlocks {
  std::set<std::uintptr_t> free;
};
std::map<std::pair<int, std::size_t>, SmallBlocks> small_blocks;

std::uintptr_t key(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

Blocks::iterator blockAt(const void* address) {
  auto found = blocks.upper_bound(key(address));
  if (found == blocks.begin()) return blocks.end();
  --found;
  return key(address) < found->first + found->second.bytes ? found : blocks.end();
}

void* newRange(std::size_t bytes) {
  void* const got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return got == MAP_FAILED ? nullptr : got;
}

// Null: the device has not as much.
void* newDeviceRange(Device& device, std::size_t bytes) {
  if (device.used_bytes + bytes > device.total_bytes) return nullptr;
  void* const got = newRange(bytes);
  if (got == nullptr) return nullptr;
  device.used_bytes += bytes;
  device.most_used_bytes = std::max(device.most_used_bytes, device.used_bytes);
  const TimeTable& table = timeTable();
  const Nanoseconds page = table.page_created + table.page_mapped + table.page_access;
  HostTime::get().spend(page * static_cast<double>(bytes / kPageBytes));
  return got;
}

void* takeSmall(Device& device, std::size_t bytes) {
  auto& free = small_blocks[{device.ordinal, bytes}].free;
  if (free.empty()) {
    void* const page = newDeviceRange(device, kPageBytes);
    if (page == nullptr) return nullptr;
    for (std::size_t at = 0; at < kPageBytes; at += bytes) free.insert(key(page) + at);
  }
  void* const taken = reinterpret_cast<void*>(*free.begin());
  free.erase(free.begin());
  return taken;
}

CUresult freeNow(Blocks::iterator found) {
  const Block block = found->second;
  const std::uintptr_t begin = found->first;
  blocks.erase(found);
  orderForget(reinterpret_cast<void*>(begin), block.bytes);
  if (block.small) {
    small_blocks[{block.device->ordinal, block.bytes}].free.insert(begin);
    return CUDA_SUCCESS;
  }
  munmap(reinterpret_cast<void*>(begin), block.bytes);
  if (block.device != nullptr) block.device->used_bytes -= block.bytes;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult allocateBlock(void** begin, std::size_t bytes, Device* device) {
  *begin = nullptr;
  if (const CUresult error = unsafeCall("an allocation")) return error;
  if (bytes == 0) return CUDA_SUCCESS;
  Block block;
  block.device = device;
  block.small = device != nullptr && bytes <= kLargestSmall;
  if (block.small) {
    block.bytes = std::bit_ceil(std::max(bytes, kLeastBlock));
    *begin = takeSmall(*device, block.bytes);
  } else {
    const std::size_t unit = device == nullptr ? 4096 : kPageBytes;
    block.bytes = (bytes + unit - 1) / unit * unit;
    *begin = device == nullptr ? newRange(block.bytes) : newDeviceRange(*device, block.bytes);
  }
  if (*begin == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if (device == nullptr) {
    HostTime::get().spend(timeTable().pinned_byte * static_cast<double>(block.bytes));
  }
  if (settings().poison && device != nullptr) std::memset(*begin, kPoison, block.bytes);
  blocks[key(*begin)] = block;
  return CUDA_SUCCESS;
}

// Waits for the devices, as the real one does.
CUresult freeBlock(void* begin) {
  if (begin == nullptr) return CUDA_SUCCESS;
  if (const CUresult error = unsafeCall("a release")) return error;
  const auto found = blocks.find(key(begin));
  if (found == blocks.end() || found->second.registered) return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < deviceCount(); ++i) drainAll(device(i));
  return freeNow(blocks.find(key(begin)));
}

CUresult freeInOrder(void* begin, CUstream stream) {
  const auto found = blocks.find(key(begin));
  if (found == blocks.end()) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(stream, {.run = [begin] { freeNow(blocks.find(key(begin))); },
                          .accesses = {{begin, found->second.bytes, true}},
                          .name = "cudaFreeAsync"});
}

CUresult pinRange(void* begin, std::size_t bytes) {
  if (blockAt(begin) != blocks.end()) {
    return static_cast<CUresult>(cudaErrorHostMemoryAlreadyRegistered);
  }
  blocks[key(begin)] = {bytes, nullptr, true, false};
  return CUDA_SUCCESS;
}

CUresult unpinRange(void* begin) {
  const auto found = blocks.find(key(begin));
  if (found == blocks.end() || !found->second.registered) {
    return static_cast<CUresult>(cudaErrorHostMemoryNotRegistered);
  }
  orderHostAccess("the host's cudaHostUnregister", {begin, found->second.bytes, true});
  orderForget(begin, found->second.bytes);
  blocks.erase(found);
  return CUDA_SUCCESS;
}

Device* deviceOf(const void* address) {
  if (const Handle* const handle = handleAt(key(address))) return handle->device;
  const auto block = blockAt(address);
  return block == blocks.end() ? nullptr : block->second.device;
}

bool isPinned(const void* address) {
  const auto block = blockAt(address);
  return block != blocks.end() && block->second.device == nullptr;
}

}  // namespace emulated_gpu
