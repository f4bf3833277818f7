#include "small_area.hpp"

#include <algorithm>
#include <bit>

namespace ebbtide::allocator {
namespace {

constexpr std::size_t kChunkGrains = 1024;
static_assert(kMaxSlotGrains <= kChunkGrains);

}  // namespace

SmallArea::SmallArea(std::byte* begin, Bytes bytes, Bytes alignment_bytes, Bytes page_bytes)
    : begin_(begin),
      bytes_(bytes),
      alignment_bytes_(alignment_bytes),
      page_bytes_(page_bytes),
      chunk_grains_(std::max(kChunkGrains, static_cast<std::size_t>(page_bytes / alignment_bytes))),
      // A link is a grain's number + 1, in 32 bits.
      most_chunks_(static_cast<std::uint32_t>(
          static_cast<std::size_t>(std::min<Bytes>(bytes / alignment_bytes, UINT32_MAX)) /
          chunk_grains_)),
      grain_shift_(std::countr_zero(static_cast<std::uint64_t>(alignment_bytes))),
      chunk_shift_(std::countr_zero(chunk_grains_)),
      state_(static_cast<std::size_t>(bytes / alignment_bytes)),
      next_(static_cast<std::size_t>(bytes / alignment_bytes)),
      chunks_(most_chunks_) {}

bool SmallArea::isSlot(const void* pointer) const noexcept {
  return ((static_cast<const std::byte*>(pointer) - begin_) & (alignment_bytes_ - 1)) == 0 &&
         (state_[grainOf(pointer)] & kLive) != 0;
}

void* SmallArea::take(std::uint32_t size_class) noexcept {
  const std::int64_t grains = slotGrains(size_class);
  std::size_t grain = 0;
  if (const std::uint32_t head = free_[size_class]) {
    grain = head - 1;
    free_[size_class] = next_[grain];
  } else {
    while (open_ != 0 && chunks_[open_ - 1].mapped - chunks_[open_ - 1].carved < grains) {
      const Chunk& chunk = chunks_[open_ - 1];
      // It may be mapped further: takeGrowth().
      if (static_cast<std::int64_t>(chunk_grains_) - chunk.carved >= grains) return nullptr;
      retire(open_ - 1);
      // The rest may have become slots that are too small for this class.
    }
    if (open_ == 0) return nullptr;
    grain = carve(open_ - 1, size_class);
  }
  state_[grain] = static_cast<std::uint8_t>((size_class + 1) | kLive);
  Chunk& chunk = chunks_[grain >> chunk_shift_];
  if (chunk.live++ == 0 && chunk.state != ChunkState::kBusy) {
    empty_bytes_ -= chunk.mapped * alignment_bytes_;
  }
  live_bytes_ += grains * alignment_bytes_;
  return begin_ + static_cast<Bytes>(grain) * alignment_bytes_;
}

bool SmallArea::giveBack(void* slot) noexcept {
  if (!isSlot(slot)) return false;
  const std::size_t grain = grainOf(slot);
  const std::uint32_t size_class = classAt(grain);
  state_[grain] = static_cast<std::uint8_t>(size_class + 1);
  pushFree(grain);
  live_bytes_ -= slotGrains(size_class) * alignment_bytes_;
  Chunk& chunk = chunks_[grain >> chunk_shift_];
  if (--chunk.live == 0 && chunk.state != ChunkState::kBusy) {
    empty_bytes_ += chunk.mapped * alignment_bytes_;
  }
  return true;
}

SmallArea::Slot SmallArea::slotAt(const void* pointer) const noexcept {
  if (!isSlot(pointer)) return {.bytes = 0, .shared = false};
  const std::size_t grain = grainOf(pointer);
  return {.bytes = slotGrains(classAt(grain)) << grain_shift_,
          .shared = (state_[grain] & kShared) != 0};
}

void SmallArea::markShared(void* slot) noexcept {
  state_[grainOf(slot)] |= kShared;
}

std::size_t SmallArea::carve(std::uint32_t chunk, std::uint32_t size_class) noexcept {
  const std::size_t grain = chunk * chunk_grains_ + static_cast<std::size_t>(chunks_[chunk].carved);
  chunks_[chunk].carved += static_cast<std::int32_t>(slotGrains(size_class));
  state_[grain] = static_cast<std::uint8_t>(size_class + 1);
  return grain;
}

void SmallArea::pushFree(std::size_t grain) noexcept {
  const std::uint32_t size_class = classAt(grain);
  next_[grain] = free_[size_class];
  free_[size_class] = static_cast<std::uint32_t>(grain) + 1;
}

// Takes the first open chunk out of use. What it has mapped is cut into the largest slots that fit.
void SmallArea::retire(std::uint32_t index) noexcept {
  Chunk& chunk = chunks_[index];
  open_ = chunk.next;
  chunk.state = ChunkState::kClosed;
  for (std::uint32_t size_class = kClasses; size_class-- > 0;) {
    while (chunk.mapped - chunk.carved >= slotGrains(size_class)) {
      pushFree(carve(index, size_class));
    }
  }
}

SmallArea::Growth SmallArea::takeGrowth(std::uint32_t size_class,
                                        bool as_little_as_possible) noexcept {
  std::uint32_t index = 0;
  if (open_ != 0) {  // take() found that it needs no more than pages
    index = open_ - 1;
    open_ = chunks_[index].next;
  } else if (emptied_ != 0) {
    index = emptied_ - 1;
    emptied_ = chunks_[index].next;
  } else if (chunks_made_ < most_chunks_) {
    index = chunks_made_++;
  } else {
    return {};
  }
  Chunk& chunk = chunks_[index];
  if (chunk.live == 0) {
    empty_bytes_ -= chunkMappedBytes(index);
    if (as_little_as_possible && chunk.carved > 0) {
      chunk.state = ChunkState::kEmptying;
      forgetEmptyingSlots();
      uncarve(index);
    }
  }
  chunk.state = ChunkState::kBusy;
  const Bytes mapped = chunkMappedBytes(index);
  const Bytes end =
      as_little_as_possible
          ? roundUp((chunk.carved + slotGrains(size_class)) * alignment_bytes_, page_bytes_)
          : static_cast<Bytes>(chunk_grains_) * alignment_bytes_;
  if (end <= mapped) {
    settleGrowth({.begin = nullptr, .bytes = 0, .chunk = index}, /*mapped=*/false);
    return {};
  }
  const Bytes chunk_bytes = static_cast<Bytes>(chunk_grains_) * alignment_bytes_;
  return {begin_ + index * chunk_bytes + mapped, end - mapped, index};
}

void SmallArea::settleGrowth(const Growth& growth, bool mapped) noexcept {
  Chunk& chunk = chunks_[growth.chunk];
  if (mapped) {
    chunk.mapped += static_cast<std::int32_t>(growth.bytes / alignment_bytes_);
    mapped_bytes_ += growth.bytes;
  }
  if (chunk.live == 0) empty_bytes_ += chunkMappedBytes(growth.chunk);
  if (chunk.mapped == 0) {
    chunk.state = ChunkState::kEmptied;
    chunk.next = emptied_;
    emptied_ = growth.chunk + 1;
    return;
  }
  chunk.state = ChunkState::kOpen;
  chunk.next = open_;
  open_ = growth.chunk + 1;
}

// Reads all chunks, and all free slots once: for when memory is short.
std::size_t SmallArea::takeEmptyChunks(std::span<Growth> out, Bytes need) noexcept {
  std::size_t count = 0;
  for (std::uint32_t index = 0; index < chunks_made_ && empty_bytes_ > 0 && need > 0; ++index) {
    if (count == out.size()) break;
    Chunk& chunk = chunks_[index];
    const bool in_use = chunk.state == ChunkState::kOpen || chunk.state == ChunkState::kClosed;
    if (!in_use || chunk.live > 0 || chunk.mapped == 0) continue;
    if (chunk.state == ChunkState::kOpen) {
      std::uint32_t* link = &open_;
      while (*link != index + 1) link = &chunks_[*link - 1].next;
      *link = chunk.next;
    }
    chunk.state = ChunkState::kEmptying;
    const std::size_t first = index * chunk_grains_;
    const Bytes bytes = chunkMappedBytes(index);
    empty_bytes_ -= bytes;
    need -= bytes;
    out[count++] = {begin_ + static_cast<Bytes>(first) * alignment_bytes_, bytes, index};
  }
  if (count == 0) return 0;
  forgetEmptyingSlots();
  for (const Growth& pages : out.first(count)) {
    uncarve(pages.chunk);
    chunks_[pages.chunk].state = ChunkState::kBusy;
  }
  return count;
}

// Its slots are in no list any more.
void SmallArea::uncarve(std::uint32_t index) noexcept {
  Chunk& chunk = chunks_[index];
  std::fill_n(&state_[index * chunk_grains_], chunk.carved, std::uint8_t{0});
  chunk.carved = 0;
}

void SmallArea::forgetEmptyingSlots() noexcept {
  for (std::uint32_t& head : free_) {
    std::uint32_t* link = &head;
    while (*link != 0) {
      const std::size_t grain = *link - 1;
      if (chunks_[grain >> chunk_shift_].state == ChunkState::kEmptying) {
        *link = next_[grain];
      } else {
        link = &next_[grain];
      }
    }
  }
}

void SmallArea::settleEmptied(const Growth& pages, bool unmapped) noexcept {
  if (unmapped) {
    chunks_[pages.chunk].mapped = 0;
    mapped_bytes_ -= pages.bytes;
  }
  settleGrowth({.begin = nullptr, .bytes = 0, .chunk = pages.chunk}, /*mapped=*/false);
}

}  // namespace ebbtide::allocator
