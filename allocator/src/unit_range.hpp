// UnitRange: units in a row, by their numbers; lists of such ranges.
#pragma once

#include <cstdint>
#include <vector>

namespace ebbtide::allocator {

struct UnitRange {
  std::uint32_t begin, units;

  std::int64_t end() const noexcept { return std::int64_t{begin} + units; }  // past the last one
};

using UnitRanges = std::vector<UnitRange>;

// In the order of addresses; those that touch or overlap are one.
UnitRanges joined(UnitRanges ranges);

// What of the ranges lies in none of `others`. Both are disjoint and in the order of addresses, and
// the result is.
UnitRanges without(const UnitRanges& ranges, const UnitRanges& others);

}  // namespace ebbtide::allocator
