// ForeignPools: torch's memory pools that have an allocator of their own: NCCL's user buffers,
// symmetric memory, FSDP2's communication buffers. Their blocks are that allocator's, kept as long
// as the pool is in use, and given again to the stream that had them. They lie in nobody's budget
// but count in the margin, as all that others take of a device.
//
//   allocate ─► idle block of the stream and size, else the pool's allocator ─► live
//   free ─► idle; one that further streams read: when they have come to its free
//
// Thread rule: any thread; a mutex of its own, not held while an allocator is called.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace ebbtide::plugin::cuda {

namespace torch_cuda = c10::cuda::CUDACachingAllocator;

class ForeignPools {
 public:
  using Id = c10::MempoolId_t;
  using Allocator = std::shared_ptr<torch_cuda::CUDAAllocator>;

  ForeignPools() = default;
  ForeignPools(const ForeignPools&) = delete;
  ForeignPools& operator=(const ForeignPools&) = delete;

  void add(const Id& id, Allocator allocator);
  bool any() const noexcept { return any_.load(std::memory_order_acquire); }
  // Nothing asks for blocks any more: idle ones go back, live ones when they are freed.
  void end(const Id& id);

  // Returns nullptr for any other pool. Throws what the allocator throws, and c10::OutOfMemoryError
  // where that gives nothing, idle blocks of the pool being given back.
  void* allocate(const Id& id, std::size_t bytes, c10::DeviceIndex device, cudaStream_t stream);
  // False: no block of theirs.
  bool free(void* at);
  bool recordStream(void* at, cudaStream_t stream, c10::DeviceIndex device);  // the stream's
  std::size_t blockBytes(const void* at) const;  // 0: no block of theirs
  // Of this pool, or of all where it is {0, 0}.
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> segments(const Id& id) const;

 private:
  struct Block {
    Id pool;
    Allocator allocator;
    std::size_t bytes = 0, requested_bytes = 0;
    c10::DeviceIndex device = 0;
    cudaStream_t stream = nullptr;
    std::set<std::pair<c10::DeviceIndex, cudaStream_t>> readers;  // further streams
    std::vector<cudaEvent_t> events;                              // that it waits for
    bool live = true;
    bool captured = false;  // freed in a capture, which replays use: kept as long as the pool is
  };

  using Held = std::lock_guard<std::mutex>;               // of mutex_
  static void* askAllocator(const Block& wanted);         // nullptr: it has none
  void* takeIdle(const Held& lock, const Block& wanted);  // nullptr: there is none
  std::map<void*, Block> idleOf(const Id& id);            // taken out
  static bool isFree(const Held&, Block& block);          // idle, and nothing that reads it is left
  static void noteFree(const Held&, Block& block);
  static void giveBack(std::map<void*, Block> blocks) noexcept;

  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::map<Id, Allocator> pools_;
  std::map<void*, Block> blocks_;
};

}  // namespace ebbtide::plugin::cuda
