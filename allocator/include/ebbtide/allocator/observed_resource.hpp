// ObservedResource: tells an observer and a watcher of every block.
#pragma once

#include <atomic>

#include "ebbtide/allocator/memory_resource.hpp"

namespace ebbtide::allocator {

// Called on the thread that allocates or frees; for one block in order. Must be quick. block_bytes
// is what blockBytes() returns.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void onAllocate(const void* block, Bytes block_bytes) noexcept = 0;
  virtual void onFree(const void* block, Bytes block_bytes) noexcept = 0;
};

// The same without the size, which takes a lock to know: for who looks at few blocks.
class BlockWatcher {
 public:
  virtual ~BlockWatcher() = default;
  virtual void onAllocated(const void* block, std::size_t request_bytes) noexcept = 0;
  virtual void onFreed(const void* block) noexcept = 0;
};

class ObservedResource final : public MemoryResource {
 public:
  explicit ObservedResource(MemoryResource& upstream) noexcept : upstream_(upstream) {}

  // Not owned; nullptr for none; may be switched at any time. A call that has begun may still reach
  // the old one, so keep it until the threads that allocate are quiet.
  void setObserver(Observer* observer) noexcept {
    observer_.store(observer, std::memory_order_release);
  }
  void setWatcher(BlockWatcher* watcher) noexcept {  // as setObserver()
    watcher_.store(watcher, std::memory_order_release);
  }

  void* allocate(std::size_t bytes, Stream stream) noexcept override {
    void* block = upstream_.allocate(bytes, stream);
    BlockWatcher* const watcher = watcher_.load(std::memory_order_acquire);
    if (watcher != nullptr && block != nullptr) watcher->onAllocated(block, bytes);
    Observer* const observer = observer_.load(std::memory_order_acquire);
    if (observer != nullptr && block != nullptr) {
      observer->onAllocate(block, upstream_.blockBytes(block));
    }
    return block;
  }
  void deallocate(void* block) noexcept override {
    // Before the block can be reused, so that its free is seen before its next allocation.
    BlockWatcher* const watcher = watcher_.load(std::memory_order_acquire);
    if (watcher != nullptr && block != nullptr) watcher->onFreed(block);
    Observer* const observer = observer_.load(std::memory_order_acquire);
    if (observer != nullptr && block != nullptr) {
      observer->onFree(block, upstream_.blockBytes(block));
    }
    upstream_.deallocate(block);
  }
  Bytes blockBytes(const void* block) const noexcept override {
    return upstream_.blockBytes(block);
  }
  void recordStream(void* block, Stream stream) noexcept override {
    upstream_.recordStream(block, stream);
  }

 private:
  MemoryResource& upstream_;
  std::atomic<Observer*> observer_{nullptr};
  std::atomic<BlockWatcher*> watcher_{nullptr};
};

}  // namespace ebbtide::allocator
