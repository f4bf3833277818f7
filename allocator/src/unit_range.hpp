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

// The parts of `ranges` that `others` does not cover. Both lists and the result are disjoint and in
// the order of addresses.
UnitRanges without(const UnitRanges& ranges, const UnitRanges& others);

}  // namespace ebbtide::allocator
