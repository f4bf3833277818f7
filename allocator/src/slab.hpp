// Slab: small blocks, carved from chunks and kept on one free list per size class.
//
// A slot keeps its class and a chunk is never returned while the resource lives: small blocks are a
// small share of training memory, and whole chunks rarely fall empty. Not thread-safe: the resource
// calls it under its lock.
#pragma once

#include <array>

#include "block.hpp"

namespace ebbtide::allocator {

class Slab {
 public:
  // What one chunk asks of the backend when the budget allows.
  static constexpr Bytes kChunkBytes = Bytes{256} * 1024;

  // The least a chunk must have to give one slot of this class, before rounding to pages.
  static Bytes minChunkBytes(std::uint32_t size_class) noexcept {
    return kHeaderBytes + slotBytes(size_class);
  }

  // A slot of this class, block_bytes and size_class set; nullptr when a chunk must be added first.
  BlockHeader* pop(std::uint32_t size_class) noexcept;
  void push(BlockHeader* slot) noexcept;
  void addChunk(void* pages, Bytes bytes) noexcept;

  // Gives all chunks to unmap(pages, bytes); no slot may be live.
  template <typename Unmap>
  void drain(Unmap&& unmap) noexcept {
    for (Chunk* chunk = chunks_; chunk != nullptr;) {
      Chunk* const next = chunk->next;
      unmap(static_cast<void*>(chunk), chunk->bytes);
      chunk = next;
    }
    chunks_ = open_ = nullptr;
    free_ = {};
  }

 private:
  struct alignas(kAlignment) Chunk {
    Chunk* next;       // all chunks
    Chunk* next_open;  // chunks not yet carved to the end
    Bytes bytes;
    Bytes carved;  // offset of the first byte that no slot has had yet
  };
  static_assert(sizeof(Chunk) == kHeaderBytes);

  static BlockHeader* carve(Chunk* chunk, std::uint32_t size_class) noexcept;
  void retire(Chunk* chunk) noexcept;

  std::array<BlockHeader*, kClasses> free_{};
  Chunk* chunks_ = nullptr;
  Chunk* open_ = nullptr;
};

}  // namespace ebbtide::allocator
