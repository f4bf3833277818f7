// Block: a header directly before the caller's bytes, and the size classes of small blocks.
//
//   ┌ header (64 bytes) ┬ caller's bytes ... ┐
//   └─ block_bytes ─────────────────────────┘
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "ebbtide/allocator/caching_resource.hpp"

namespace ebbtide::allocator {

inline constexpr std::uint32_t kLargeClass = UINT32_MAX;

struct alignas(kAlignment) BlockHeader {
  std::uint64_t magic;     // a state mixed with the header's address, so that a copy is not valid
  Bytes block_bytes;       // with the header: the slot of a small block, the mapping of a large one
  BlockHeader* next;       // free blocks only: the next one of the same size
  BlockHeader* previous;   // cached large blocks only: the one whose next it is
  BlockHeader* next_size;  // cached large blocks only: the first one of another size
  std::uint32_t size_class;  // kLargeClass for a mapping of its own
};
static_assert(sizeof(BlockHeader) == kAlignment);

inline constexpr Bytes kHeaderBytes = sizeof(BlockHeader);
inline constexpr std::uint64_t kLiveMagic = 0x65626274'6c697665;  // "ebbtlive"
inline constexpr std::uint64_t kFreeMagic = 0x65626274'66726565;  // "ebbtfree"

inline std::uint64_t magicFor(std::uint64_t state, const BlockHeader* header) noexcept {
  return state ^ reinterpret_cast<std::uintptr_t>(header);
}

// Makes these pages a free large block.
inline BlockHeader* makeFreeBlock(void* pages, Bytes bytes) noexcept {
  auto* header = static_cast<BlockHeader*>(pages);
  header->magic = magicFor(kFreeMagic, header);
  header->block_bytes = bytes;
  header->size_class = kLargeClass;
  return header;
}

inline constexpr Bytes roundUp(Bytes bytes, Bytes multiple) noexcept {
  return (bytes + multiple - 1) / multiple * multiple;
}

// Slots step by 64 bytes up to 1 KiB, then by an eighth of the power of two below: 128, 192, ...
// 1024, 1152, ... 32768. Above 512 bytes less than 12.5 % of a slot is rounding.
inline constexpr Bytes kMinSlotBytes = 128;
inline constexpr Bytes kMaxSlotBytes = Bytes{32} * 1024;
inline constexpr Bytes kFineSlotBytes = 1024;
inline constexpr std::uint32_t kFineClasses = (kFineSlotBytes - kMinSlotBytes) / 64 + 1;  // 15
inline constexpr std::uint32_t kClasses = kFineClasses + 5 * 8;  // five doublings: 1 KiB to 32 KiB

// The smallest class whose slot holds `bytes` (header included), 0 < bytes <= kMaxSlotBytes.
inline constexpr std::uint32_t classFor(Bytes bytes) noexcept {
  if (bytes <= kFineSlotBytes) {
    return static_cast<std::uint32_t>(std::max<Bytes>(roundUp(bytes, 64) / 64, 2) - 2);
  }
  const auto power = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bytes - 1))) -
                     1;  // 2^power < bytes
  const Bytes step = Bytes{1} << (power - 3);
  const Bytes eighths = roundUp(bytes - (Bytes{1} << power), step) / step;  // 1 to 8
  return kFineClasses + static_cast<std::uint32_t>(Bytes{power - 10} * 8 + eighths - 1);
}

inline constexpr Bytes slotBytes(std::uint32_t size_class) noexcept {
  if (size_class < kFineClasses) return kMinSlotBytes + 64 * Bytes{size_class};
  const std::uint32_t coarse = size_class - kFineClasses;
  return (Bytes{1024} << (coarse / 8)) + (Bytes{128} << (coarse / 8)) * (coarse % 8 + 1);
}

static_assert(slotBytes(kFineClasses - 1) == kFineSlotBytes);
static_assert(slotBytes(kFineClasses) == 1152 && classFor(1025) == kFineClasses);
static_assert(slotBytes(kClasses - 1) == kMaxSlotBytes && classFor(kMaxSlotBytes) == kClasses - 1);

}  // namespace ebbtide::allocator
