#include "block_cache.hpp"

namespace ebbtide::allocator {

BlockHeader*& BlockCache::bucketFor(Bytes block_bytes) noexcept {
  // Fibonacci hashing of the size in 4 KiB units; the top ten bits choose one of 1024 buckets.
  const auto units = static_cast<std::uint64_t>(block_bytes) >> 12;
  return buckets_[(units * 0x9e3779b97f4a7c15) >> 54];
}

void BlockCache::push(BlockHeader* block) noexcept {
  bytes_ += block->block_bytes;
  ++count_;
  BlockHeader** link = &bucketFor(block->block_bytes);
  while (*link != nullptr && (*link)->block_bytes != block->block_bytes) link = &(*link)->next_size;
  BlockHeader* head = *link;  // of the same size, or the end of the chain
  block->next = head;
  block->previous = nullptr;
  if (head != nullptr) head->previous = block;  // its header has just been read
  block->next_size = head == nullptr ? nullptr : head->next_size;
  *link = block;
}

BlockHeader* BlockCache::pop(Bytes block_bytes) noexcept {
  BlockHeader** link = &bucketFor(block_bytes);
  while (*link != nullptr && (*link)->block_bytes != block_bytes) link = &(*link)->next_size;
  BlockHeader* head = *link;
  if (head == nullptr) return nullptr;
  if (head->next != nullptr) {
    head->next->next_size = head->next_size;
    head->next->previous = nullptr;
    *link = head->next;
  } else {
    *link = head->next_size;
  }
  bytes_ -= block_bytes;
  --count_;
  return head;
}

BlockHeader* BlockCache::popSmallestAtLeast(Bytes block_bytes) noexcept {
  Bytes best = kUnlimited;
  for (const BlockHeader* bucket : buckets_) {
    for (const BlockHeader* head = bucket; head != nullptr; head = head->next_size) {
      if (head->block_bytes >= block_bytes) best = std::min(best, head->block_bytes);
    }
  }
  return best == kUnlimited ? nullptr : pop(best);
}

BlockHeader* BlockCache::popLargest() noexcept {
  Bytes best = 0;
  for (const BlockHeader* bucket : buckets_) {
    for (const BlockHeader* head = bucket; head != nullptr; head = head->next_size) {
      best = std::max(best, head->block_bytes);
    }
  }
  return best == 0 ? nullptr : pop(best);
}

BlockHeader* BlockCache::popAll() noexcept {
  BlockHeader* chain = nullptr;
  for (BlockHeader*& bucket : buckets_) {
    for (BlockHeader* head = bucket; head != nullptr;) {
      BlockHeader* const next_head = head->next_size;
      for (BlockHeader* block = head; block != nullptr;) {
        BlockHeader* const next = block->next;
        block->next = chain;
        chain = block;
        block = next;
      }
      head = next_head;
    }
    bucket = nullptr;
  }
  bytes_ = 0;
  count_ = 0;
  return chain;
}

void BlockCache::remove(BlockHeader* block) noexcept {
  if (block->previous == nullptr) {  // the first of its size
    pop(block->block_bytes);
    return;
  }
  block->previous->next = block->next;
  if (block->next != nullptr) block->next->previous = block->previous;
  bytes_ -= block->block_bytes;
  --count_;
}

}  // namespace ebbtide::allocator
