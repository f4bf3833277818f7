// SmallArea: slots of a few sizes, carved from chunks; addresses of its own.
//
//   chunk  ├ slot ┤ slot ├── slot ──┤ carved up to here ┊ mapped up to here │ addresses only │
//
// A freed slot waits in the list of its class. A chunk without a live slot can be emptied: its
// slots leave the lists, and its pages go. What a chunk lacks is mapped 64 KiB at a time, or as
// little as the slot needs where the budget is short. State and links lie beside, so the memory
// itself is never touched. Not thread-safe: the pool calls it under its lock.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "size_class.hpp"
#include "sparse_array.hpp"

namespace ebbtide::allocator {

class SmallArea {
 public:
  // Grains and pages are powers of two. Chunks are of 1,024 grains, or a page where that is more.
  SmallArea(std::byte* begin, Bytes bytes, Bytes alignment_bytes, Bytes page_bytes);

  Bytes mappedBytes() const noexcept { return mapped_bytes_; }
  Bytes liveBytes() const noexcept { return live_bytes_; }
  bool owns(const void* pointer) const noexcept {
    return pointer >= begin_ && pointer < begin_ + bytes_;
  }

  void* take(std::uint32_t size_class) noexcept;  // nullptr: no slot is ready
  // False: no live slot starts there.
  bool giveBack(void* slot) noexcept;
  struct Slot {
    Bytes bytes;  // 0: no live slot starts there
    bool shared;
  };
  Slot slotAt(const void* pointer) const noexcept;
  void markShared(void* slot) noexcept;  // until it is taken again

  // Pages to be mapped for a slot: at best chunk_bytes, at least what it needs. The chunk is out of
  // use until it is settled. With as little as possible, a chunk without live slots is carved anew.
  // bytes 0: the addresses are used up, or take() finds a slot now.
  struct Growth {
    std::byte* begin = nullptr;
    Bytes bytes = 0;
    std::uint32_t chunk = 0;
  };
  Growth takeGrowth(std::uint32_t size_class, bool as_little_as_possible) noexcept;
  void settleGrowth(const Growth& growth, bool mapped) noexcept;

  // Chunks without live slots, taken out of use with their slots: as many as `need` takes, at most
  // those that `out` holds. Returns how many.
  std::size_t takeEmptyChunks(std::span<Growth> out, Bytes need) noexcept;
  void settleEmptied(const Growth& pages, bool unmapped) noexcept;
  Bytes emptyBytes() const noexcept { return empty_bytes_; }

  // visit(begin, bytes, live) for each slot and for what else is mapped.
  template <typename Visit>
  void forEachExtent(Visit&& visit) const {
    forEachSlot(visit);
    for (std::uint32_t chunk = 0; chunk < chunks_made_; ++chunk) {
      const Bytes carved = chunks_[chunk].carved * alignment_bytes_;
      const Bytes rest = chunkMappedBytes(chunk) - carved;
      const auto begin = static_cast<Bytes>(chunk * chunk_grains_) * alignment_bytes_;
      if (rest > 0) visit(begin_ + begin + carved, rest, false);
    }
  }
  // visit(begin, bytes, live) for each slot, in the order of addresses.
  template <typename Visit>
  void forEachSlot(Visit&& visit) const {
    for (std::uint32_t chunk = 0; chunk < chunks_made_; ++chunk) {
      std::size_t grain = chunk * chunk_grains_;
      const std::size_t end = grain + static_cast<std::size_t>(chunks_[chunk].carved);
      while (grain < end) {
        const std::int64_t grains = slotGrains(classAt(grain));
        visit(begin_ + static_cast<Bytes>(grain) * alignment_bytes_, grains * alignment_bytes_,
              (state_[grain] & kLive) != 0);
        grain += static_cast<std::size_t>(grains);
      }
    }
  }

 private:
  // state_ of a slot's first grain: its class + 1 and the flags; 0 elsewhere.
  static constexpr std::uint8_t kLive = 0x80;
  static constexpr std::uint8_t kShared = 0x40;
  static constexpr std::uint8_t kClass = 0x3f;
  static_assert(kClasses < kClass);

  enum class ChunkState : std::uint8_t { kNew, kClosed, kOpen, kBusy, kEmptying, kEmptied };
  struct Chunk {
    std::int32_t mapped;  // grains
    std::int32_t carved;
    std::int32_t live;   // slots
    std::uint32_t next;  // of the open ones, or of the emptied ones; index + 1, 0 ends
    ChunkState state;
  };

  std::size_t grainOf(const void* slot) const noexcept {
    return static_cast<std::size_t>((static_cast<const std::byte*>(slot) - begin_) >> grain_shift_);
  }
  std::uint32_t classAt(std::size_t grain) const noexcept { return (state_[grain] & kClass) - 1U; }
  bool isSlot(const void* pointer) const noexcept;
  std::size_t carve(std::uint32_t chunk, std::uint32_t size_class) noexcept;
  void pushFree(std::size_t grain) noexcept;
  void retire(std::uint32_t chunk) noexcept;
  void forgetEmptyingSlots() noexcept;
  void uncarve(std::uint32_t chunk) noexcept;
  Bytes chunkMappedBytes(std::uint32_t chunk) const noexcept {
    return chunks_[chunk].mapped * alignment_bytes_;
  }

  std::byte* const begin_;
  const Bytes bytes_, alignment_bytes_, page_bytes_;
  const std::size_t chunk_grains_;
  const std::uint32_t most_chunks_;
  const int grain_shift_, chunk_shift_;  // what divides by them
  SparseArray<std::uint8_t> state_;      // by grain
  SparseArray<std::uint32_t> next_;      // by grain: of a free slot, the next of its class + 1
  SparseArray<Chunk> chunks_;
  std::array<std::uint32_t, kClasses> free_{};  // grain + 1
  std::uint32_t chunks_made_ = 0;
  std::uint32_t open_ = 0;     // index + 1
  std::uint32_t emptied_ = 0;  // index + 1
  Bytes mapped_bytes_ = 0, live_bytes_ = 0;
  Bytes empty_bytes_ = 0;  // mapped, in closed or open chunks without live slots
};

}  // namespace ebbtide::allocator
