// Sizes that the file of a host and a GPU's pinned memory share. Torch-free.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace ebbtide::plugin {

// The least copy whose time tells a rate: of less it says more of the call than of the bytes.
inline constexpr std::int64_t kLeastTimedBytes = 1 << 20;

// The room of a slot for so many bytes: at most an eighth more. So values of nearly the same size
// share slots, and batches of varying length do not make the target grow with each new length.
inline std::int64_t spillRoomBytes(std::int64_t bytes) {
  const auto step = static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 8))) / 8);
  return (bytes + step - 1) / step * step;
}

}  // namespace ebbtide::plugin
