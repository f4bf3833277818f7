// MemoryHistory: the blocks that came and went while somebody watched, and for what. Torch-free.
//
// Thread rule: any thread; one mutex, held for an append only.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "base/ring_buffer.hpp"
#include "ebbtide/allocator/observed_resource.hpp"

namespace ebbtide::plugin {

// What the calling thread does: literals, or names that live as long as the process.
struct WorkInHand {
  const char* what = "";  // "aten::gelu", "MmBackward0"; empty: nothing that we know
  const char* kind = "";  // "forward", "recompute"
};

// One text for all equal names; it lives as long as the process, so the names must be few. Any
// thread.
const char* keptName(const std::string& name);

struct MemoryEvent {
  std::int64_t at_ns = 0;  // of the steady clock
  const void* block = nullptr;
  allocator::Bytes bytes = 0;
  bool allocated = false;  // else freed
  WorkInHand by = {};
};

class MemoryHistory final : public allocator::Observer {
 public:
  static constexpr std::size_t kMostEvents = 1 << 17;  // 6 MiB

  using Ask = WorkInHand (*)();  // of the calling thread; may throw

  // `ask` may be nullptr: nothing is known.
  explicit MemoryHistory(Ask ask) noexcept : ask_(ask) {}

  void onAllocate(const void* block, allocator::Bytes block_bytes) noexcept override {
    add(block, block_bytes, true);
  }
  void onFree(const void* block, allocator::Bytes block_bytes) noexcept override {
    add(block, block_bytes, false);
  }
  // A copy: a thread that was told late may still add.
  RingBuffer<MemoryEvent> events() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }

 private:
  void add(const void* block, allocator::Bytes bytes, bool allocated) noexcept;

  const Ask ask_;
  mutable std::mutex mutex_;
  RingBuffer<MemoryEvent> events_{kMostEvents};
};

}  // namespace ebbtide::plugin
