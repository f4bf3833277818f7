#include "unit_range.hpp"

#include <algorithm>

namespace ebbtide::allocator {

UnitRanges joined(UnitRanges ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const UnitRange& left, const UnitRange& right) { return left.begin < right.begin; });
  std::size_t count = 0;
  for (const UnitRange& range : ranges) {
    if (count > 0 && range.begin <= ranges[count - 1].end()) {
      UnitRange& last = ranges[count - 1];
      const std::int64_t end = std::max(last.end(), range.end());
      last.units = static_cast<std::uint32_t>(end - last.begin);
    } else {
      ranges[count++] = range;
    }
  }
  ranges.resize(count);
  return ranges;
}

UnitRanges without(const UnitRanges& ranges, const UnitRanges& others) {
  UnitRanges rest;
  auto other = others.begin();
  for (const UnitRange& range : ranges) {
    std::int64_t from = range.begin;
    const auto keep = [&](std::int64_t to) {
      if (from >= to) return;
      rest.push_back({static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to - from)});
    };
    while (other != others.end() && other->end() <= range.begin) ++other;
    for (auto in_way = other; in_way != others.end() && in_way->begin < range.end(); ++in_way) {
      keep(in_way->begin);
      from = std::max(from, in_way->end());
    }
    keep(range.end());
  }
  return rest;
}

}  // namespace ebbtide::allocator
