// DroppedBlocks: blocks of values that were dropped while the program still held them.
//
// Something that tells nobody, such as NumPy, may write there until the program lets go, and
// PyTorch's saved tensor would have seen it. So the free of such a block compares its contents with
// the fingerprint, and keeps a block that was written instead of freeing it. Addresses are used
// again: a ticket tells one watch of a place from the next. A block that a replay still has to read
// is held in the same way, written or not. Torch-free; safe from any thread and
// across a fork; calls nothing while it holds its mutex.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/byte_range.hpp"
#include "device/fingerprint.hpp"

namespace ebbtide::plugin {

class DroppedBlocks {
 public:
  using Ticket = std::uint64_t;  // never 0

  Ticket watch(const void* block, ByteRange covered, Fingerprint print);  // of those bytes
  // Keeps the block whatever its free finds there. 0: somebody else has an eye on it.
  Ticket hold(const void* block);
  // Ends that watch. A block that was kept comes back, and the caller has to free it; else nullptr.
  void* withdraw(const void* block, Ticket ticket) noexcept;
  // Asked by the allocator's free. True: the block is kept, it must not be freed now.
  bool keepIfWritten(void* block) noexcept;

  void lockForFork() { mutex_.lock(); }
  void unlockAfterFork() { mutex_.unlock(); }

 private:
  struct Watch {
    Ticket ticket = 0;
    ByteRange covered = {};
    std::optional<Fingerprint> print = {};  // nothing: it is held, written or not
    bool freed = false;                     // by the program; the block is kept
  };

  std::mutex mutex_;
  Ticket last_ticket_ = 0;
  std::unordered_map<const void*, Watch> watches_;
  std::atomic<std::int64_t> count_{0};  // of watches_: most frees need no more than this
};

DroppedBlocks& droppedBlocks();

}  // namespace ebbtide::plugin
