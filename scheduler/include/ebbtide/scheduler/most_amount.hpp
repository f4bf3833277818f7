// The largest amount (bytes, nanoseconds, a placement's times) that a checked input or a sum over it may have: sums
// of several stay far from an overflow of 64 bits.
#pragma once

#include <cstdint>

namespace ebbtide::scheduler {

inline constexpr std::int64_t kMostAmount = std::int64_t{1} << 60;

}  // namespace ebbtide::scheduler
