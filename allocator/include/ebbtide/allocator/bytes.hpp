// Words that every part of the allocator uses.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ebbtide::allocator {

using Bytes = std::int64_t;

inline constexpr Bytes kUnlimited = INT64_MAX;

// Larger requests are refused at the door: nothing above can be mapped with five-level page tables,
// and sums of such sizes stay far from overflow.
inline constexpr std::size_t kMostRequestBytes = std::size_t{1} << 56;

// Where work is queued in order; the device's own handle, or 0 for its default one. On the host all
// work is done when it is queued, and everything is on stream 0.
enum class Stream : std::uintptr_t { kDefault = 0 };

}  // namespace ebbtide::allocator
