// BlockCache: free large blocks, one last-in-first-out list per size.
//
// Intrusive: the links live in the blocks' headers, so no call allocates. Not thread-safe: the
// resource calls it under its lock.
#pragma once

#include <array>

#include "block.hpp"

namespace ebbtide::allocator {

class BlockCache {
 public:
  Bytes bytes() const noexcept { return bytes_; }
  bool empty() const noexcept { return bytes_ == 0; }
  std::size_t count() const noexcept { return count_; }

  void push(BlockHeader* block) noexcept;
  BlockHeader* pop(Bytes block_bytes) noexcept;  // of exactly this size; nullptr if there is none

  // These read every bucket and a header of every size, which is a cache miss for each size where
  // there are many (under 1 us with 64, 10 us or more with thousands): for misses. nullptr if there
  // is none.
  BlockHeader* popSmallestAtLeast(Bytes block_bytes) noexcept;
  BlockHeader* popLargest() noexcept;
  BlockHeader* popAll() noexcept;  // chained by `next`; reads every block

  // Constant time, but for the first block of its size, whose bucket is searched as by pop().
  void remove(BlockHeader* block) noexcept;

  template <typename Visit>
  void forEach(Visit&& visit) const noexcept {
    for (BlockHeader* bucket : buckets_) {
      for (BlockHeader* head = bucket; head != nullptr; head = head->next_size) {
        for (BlockHeader* block = head; block != nullptr; block = block->next) visit(block);
      }
    }
  }

 private:
  static constexpr std::size_t kBuckets = 1024;

  BlockHeader*& bucketFor(Bytes block_bytes) noexcept;

  // Each bucket chains the heads of its sizes by `next_size`; each head chains its size by `next`
  // and `previous`.
  std::array<BlockHeader*, kBuckets> buckets_{};
  Bytes bytes_ = 0;
  std::size_t count_ = 0;
};

}  // namespace ebbtide::allocator
