// The largest amount (bytes, nanoseconds, a placement's times) of a checked input, and of a sum
// over it: sums of several stay far from an overflow of 64 bits.
#pragma once

#include <cstdint>

namespace ebbtide::scheduler {

inline constexpr std::int64_t kMostAmount = std::int64_t{1} << 60;

}  // namespace ebbtide::scheduler
