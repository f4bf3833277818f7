// RecordingResource: writes down what one thread allocates, and when each block is freed.
//
// Costs one load a call while it does not record. Frees are noted whichever thread makes them.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ebbtide/allocator/memory_resource.hpp"

namespace ebbtide::allocator {

struct RequestLog {
  static constexpr std::int64_t kAlive = INT64_MAX;

  struct Block {
    Bytes bytes;                  // with rounding
    std::int64_t death = kAlive;  // how many were noted before: the first that may have its place
  };

  std::vector<Block> blocks;        // in the order of their allocation
  std::vector<std::int64_t> marks;  // how many blocks were noted before each
};

class RecordingResource final : public MemoryResource {
 public:
  explicit RecordingResource(MemoryResource& upstream) noexcept : upstream_(upstream) {}

  // This thread's blocks of at least so many bytes, from now on; an older log is forgotten.
  void start(Bytes least_bytes) noexcept;
  void mark() noexcept;    // by the recorded thread
  void unmark() noexcept;  // likewise: takes the last mark back
  bool records() const noexcept { return recording_.load(std::memory_order_relaxed); }
  // Empty when memory for it ran short.
  RequestLog stop() noexcept;

  void* allocate(std::size_t bytes, Stream stream) noexcept override;
  void deallocate(void* block) noexcept override;
  Bytes blockBytes(const void* block) const noexcept override {
    return upstream_.blockBytes(block);
  }
  void recordStream(void* block, Stream stream) noexcept override {
    upstream_.recordStream(block, stream);
  }

  void lockForFork() noexcept { mutex_.lock(); }
  void unlockAfterFork() noexcept { mutex_.unlock(); }

 private:
  void noteAllocate(const void* block) noexcept;
  void noteFree(const void* block) noexcept;
  using Held = std::lock_guard<std::mutex>;
  void giveUp(const Held&) noexcept;

  MemoryResource& upstream_;
  std::atomic<bool> recording_{false};
  std::mutex mutex_;  // guards all below
  const void* thread_ = nullptr;
  Bytes least_bytes_ = 0;
  RequestLog log_;
  std::unordered_map<const void*, std::size_t> open_;  // live blocks of the log
};

}  // namespace ebbtide::allocator
