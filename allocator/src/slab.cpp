#include "slab.hpp"

namespace ebbtide::allocator {

BlockHeader* Slab::pop(std::uint32_t size_class) noexcept {
  if (BlockHeader* slot = free_[size_class]) {
    free_[size_class] = slot->next;
    return slot;
  }
  while (open_ != nullptr) {
    if (open_->bytes - open_->carved >= slotBytes(size_class)) return carve(open_, size_class);
    Chunk* const full = open_;
    open_ = full->next_open;
    retire(full);
    // The rest of the chunk may have become slots, none of which is large enough for this class.
  }
  return nullptr;
}

void Slab::push(BlockHeader* slot) noexcept {
  slot->next = free_[slot->size_class];
  free_[slot->size_class] = slot;
}

void Slab::addChunk(void* pages, Bytes bytes) noexcept {
  auto* chunk = static_cast<Chunk*>(pages);
  *chunk = Chunk{.next = chunks_, .next_open = open_, .bytes = bytes, .carved = kHeaderBytes};
  chunks_ = open_ = chunk;
}

BlockHeader* Slab::carve(Chunk* chunk, std::uint32_t size_class) noexcept {
  auto* slot = reinterpret_cast<BlockHeader*>(reinterpret_cast<std::byte*>(chunk) + chunk->carved);
  chunk->carved += slotBytes(size_class);
  slot->magic = magicFor(kFreeMagic, slot);
  slot->block_bytes = slotBytes(size_class);
  slot->size_class = size_class;
  return slot;
}

// The rest is cut into the largest slots that fit, so that at most one minimal slot is lost.
void Slab::retire(Chunk* chunk) noexcept {
  for (std::uint32_t size_class = kClasses; size_class-- > 0;) {
    while (chunk->bytes - chunk->carved >= slotBytes(size_class)) push(carve(chunk, size_class));
  }
}

}  // namespace ebbtide::allocator
