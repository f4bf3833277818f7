#include "reshaping.hpp"

#include <functional>

namespace ebbtide::allocator {
namespace {

std::byte* beginOf(BlockHeader* block) noexcept {
  return reinterpret_cast<std::byte*>(block);
}

}  // namespace

BlockHeader* cutTo(BlockCache& cache, BlockHeader* block, Bytes bytes) noexcept {
  if (block->block_bytes > bytes) {
    cache.push(makeFreeBlock(beginOf(block) + bytes, block->block_bytes - bytes));
    block->block_bytes = bytes;
  }
  return block;
}

BlockHeader* Neighbours::popJoined(BlockCache& cache, Bytes bytes) noexcept {
  if (cache.bytes() < bytes || cache.count() < 2 || cache.count() > kMost) return nullptr;
  count_ = 0;
  cache.forEach([this](BlockHeader* block) { sorted_[count_++] = block; });
  std::sort(sorted_.begin(), sorted_.begin() + count_, std::less<>());
  const std::span<BlockHeader*> run = smallestRun(bytes);
  if (run.empty()) return nullptr;
  Bytes total = 0;
  for (BlockHeader* block : run) {
    cache.remove(block);
    total += block->block_bytes;
  }
  return makeFreeBlock(run.front(), total);
}

// A window over the blocks in address order: its end advances by one, its begin as far as it can.
std::span<BlockHeader*> Neighbours::smallestRun(Bytes bytes) noexcept {
  std::span<BlockHeader*> best;
  Bytes best_total = kUnlimited;
  Bytes total = 0;
  std::size_t begin = 0;
  for (std::size_t end = 0; end < count_; ++end) {
    if (end > 0 &&
        beginOf(sorted_[end - 1]) + sorted_[end - 1]->block_bytes != beginOf(sorted_[end])) {
      begin = end;
      total = 0;
    }
    total += sorted_[end]->block_bytes;
    while (total - sorted_[begin]->block_bytes >= bytes) total -= sorted_[begin++]->block_bytes;
    if (total >= bytes && total < best_total) {
      best_total = total;
      best = {sorted_.data() + begin, end - begin + 1};
    }
  }
  return best;
}

// The largest blocks first, for few pieces; the last is the smallest that is enough, and gives only
// its end.
void Pieces::pop(BlockCache& cache, const Seams& seams, Bytes bytes) noexcept {
  while (bytes_ < bytes && !cache.empty() && moved_count_ < kMost && dropped_count_ < kMost) {
    const Bytes missing = bytes - bytes_;
    BlockHeader* block = cache.popSmallestAtLeast(missing);
    if (block == nullptr) block = cache.popLargest();
    const Bytes kept = std::max<Bytes>(block->block_bytes - missing, 0);
    add(beginOf(block) + kept, block->block_bytes - kept, seams);
    if (kept > 0) cache.push(makeFreeBlock(block, kept));
  }
}

void Pieces::pushBack(BlockCache& cache) noexcept {
  for (const PageRange& range : moved()) cache.push(makeFreeBlock(range.begin, range.bytes));
  for (const PageRange& range : dropped()) cache.push(makeFreeBlock(range.begin, range.bytes));
  moved_count_ = dropped_count_ = 0;
  bytes_ = 0;
}

void Pieces::add(std::byte* begin, Bytes bytes, const Seams& seams) noexcept {
  bytes_ += bytes;
  while (bytes > 0) {
    const Bytes stretch = seams.bytesUntilNext(begin, bytes);
    // Each stretch becomes a mapping, with two seams at worst.
    if (stretch >= kMinMovedBytes && moved_count_ < std::min(kMost, seams.room() / 2)) {
      moved_[moved_count_++] = {begin, stretch};
    } else {
      drop(begin, stretch);
    }
    begin += stretch;
    bytes -= stretch;
  }
}

void Pieces::drop(std::byte* begin, Bytes bytes) noexcept {
  if (dropped_count_ > 0) {
    PageRange& last = dropped_[dropped_count_ - 1];
    if (static_cast<std::byte*>(last.begin) + last.bytes == begin) {
      last.bytes += bytes;
      return;
    }
  }
  dropped_[dropped_count_++] = {begin, bytes};
}

}  // namespace ebbtide::allocator
