// Size classes of small blocks, in grains (64 bytes on the host, 512 on a GPU).
//
// Slots step by a grain up to 16, then by an eighth of the power of two below: 1, 2, ... 16, 18,
// ... 512. Above 8 grains less than 12.5 % of a slot is rounding.
#pragma once

#include <bit>
#include <cstdint>

#include "ebbtide/allocator/bytes.hpp"

namespace ebbtide::allocator {

inline constexpr std::int64_t kFineSlotGrains = 16;
inline constexpr std::int64_t kMaxSlotGrains = 512;                 // 32 KiB on the host
inline constexpr std::uint32_t kClasses = kFineSlotGrains + 5 * 8;  // five doublings: 16 to 512

inline constexpr Bytes roundUp(Bytes bytes, Bytes multiple) noexcept {
  return (bytes + multiple - 1) / multiple * multiple;
}

// The smallest class whose slot holds so many, 0 < grains <= kMaxSlotGrains.
inline constexpr std::uint32_t classFor(std::int64_t grains) noexcept {
  if (grains <= kFineSlotGrains) return static_cast<std::uint32_t>(grains - 1);
  const int power = std::bit_width(static_cast<std::uint64_t>(grains - 1)) - 1;  // 2^power < grains
  const std::int64_t step = std::int64_t{1} << (power - 3);
  const std::int64_t eighths = (grains - (std::int64_t{1} << power) + step - 1) / step;  // 1 to 8
  return static_cast<std::uint32_t>(kFineSlotGrains + (power - 4) * 8 + eighths - 1);
}

inline constexpr std::int64_t slotGrains(std::uint32_t size_class) noexcept {
  if (size_class < kFineSlotGrains) return size_class + 1;
  const std::uint32_t coarse = size_class - kFineSlotGrains;
  return (std::int64_t{16} << (coarse / 8)) + (std::int64_t{2} << (coarse / 8)) * (coarse % 8 + 1);
}

static_assert(slotGrains(15) == 16 && slotGrains(16) == 18 && classFor(17) == 16);
static_assert(slotGrains(kClasses - 1) == kMaxSlotGrains &&
              classFor(kMaxSlotGrains) == kClasses - 1);

}  // namespace ebbtide::allocator
