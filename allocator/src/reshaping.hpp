// Reshaping: a block of a wanted size from cached blocks of other sizes.
//
// None of this calls the system. Cutting and joining give a block at once; pieces are what the
// backend then gathers. Not thread-safe: the resource calls it under its lock.
#pragma once

#include <array>
#include <span>

#include "block_cache.hpp"
#include "seams.hpp"

namespace ebbtide::allocator {

// Splits off the first `bytes` of a block outside the cache; the rest becomes a cached block,
// however small: it can still be joined or gathered.
BlockHeader* cutTo(BlockCache& cache, BlockHeader* block, Bytes bytes) noexcept;

class Neighbours {
 public:
  // Takes the smallest run of adjacent cached blocks that is enough, as one block. Reads every
  // cached block and sorts them: 1 us for 64, half a millisecond for kMost. nullptr if there is no
  // such run, or more than kMost are cached.
  BlockHeader* popJoined(BlockCache& cache, Bytes bytes) noexcept;

 private:
  static constexpr std::size_t kMost = 4096;

  std::span<BlockHeader*> smallestRun(Bytes bytes) noexcept;

  std::array<BlockHeader*, kMost> sorted_;
  std::size_t count_ = 0;
};

// Taken out of the cache to become one block. Stretches free of seams move; the short ones are
// dropped, because a few faults cost less than a move, and so that no block shatters.
class Pieces {
 public:
  static constexpr Bytes kMinMovedBytes = Bytes{64} * 1024;

  // Takes until `bytes` are there, the cache is empty or the list is full.
  void pop(BlockCache& cache, const Seams& seams, Bytes bytes) noexcept;
  void pushBack(BlockCache& cache) noexcept;

  Bytes bytes() const noexcept { return bytes_; }
  std::span<const PageRange> moved() const noexcept { return {moved_.data(), moved_count_}; }
  std::span<const PageRange> dropped() const noexcept { return {dropped_.data(), dropped_count_}; }

 private:
  static constexpr std::size_t kMost = 256;

  void add(std::byte* begin, Bytes bytes, const Seams& seams) noexcept;
  void drop(std::byte* begin, Bytes bytes) noexcept;

  std::array<PageRange, kMost> moved_;
  // One block adds at most one more stretch than it moves, and none is taken beyond kMost.
  std::array<PageRange, 2 * kMost + 1> dropped_;
  std::size_t moved_count_ = 0;
  std::size_t dropped_count_ = 0;
  Bytes bytes_ = 0;
};

}  // namespace ebbtide::allocator
