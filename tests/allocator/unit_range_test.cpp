// Lists of ranges, joined and taken from each other.
#include "unit_range.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace ebbtide::allocator {
namespace {

using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;  // begin, units

Pairs pairsOf(const UnitRanges& ranges) {
  Pairs pairs;
  for (const UnitRange& range : ranges) pairs.emplace_back(range.begin, range.units);
  return pairs;
}

TEST(UnitRangeTest, ItsEndIsBeyondThirtyTwoBits) {
  EXPECT_EQ((UnitRange{UINT32_MAX, 2}.end()), (std::int64_t{1} << 32) + 1);
}

TEST(UnitRangeTest, WhatTouchesOrOverlapsIsJoined) {
  // [0, 10) and [10, 15) touch; [20, 30) has [22, 25) inside and overlaps [28, 33).
  EXPECT_EQ(pairsOf(joined({{28, 5}, {10, 5}, {20, 10}, {0, 10}, {22, 3}, {40, 1}})),
            (Pairs{{0, 15}, {20, 13}, {40, 1}}));
  EXPECT_TRUE(joined({}).empty());
}

TEST(UnitRangeTest, WhatLiesInNoOtherIsLeft) {
  const UnitRanges ranges = {{0, 10}, {20, 10}, {40, 10}};
  // [5, 22) takes the end of one and the begin of the next; [24, 26) leaves both sides; [40, 50)
  // takes all.
  EXPECT_EQ(pairsOf(without(ranges, {{5, 17}, {24, 2}, {40, 10}})),
            (Pairs{{0, 5}, {22, 2}, {26, 4}}));
  EXPECT_EQ(pairsOf(without(ranges, {})), pairsOf(ranges));
  EXPECT_EQ(pairsOf(without(ranges, {{10, 10}, {30, 10}})), pairsOf(ranges));  // between them
  EXPECT_TRUE(without({}, ranges).empty());
}

TEST(UnitRangeTest, DoesWhatAnArrayDoes) {
  constexpr std::uint32_t kUnits = 200;
  std::mt19937_64 random(11);
  const auto anyRanges = [&] {
    UnitRanges ranges;
    for (std::uint64_t i = random() % 12; i > 0; --i) {
      const auto begin = static_cast<std::uint32_t>(random() % (kUnits - 20));
      ranges.push_back({begin, static_cast<std::uint32_t>(1 + random() % 20)});
    }
    return ranges;
  };
  const auto painted = [](const UnitRanges& ranges) {
    std::vector<bool> units(kUnits);
    for (const UnitRange& range : ranges) {
      for (std::int64_t unit = range.begin; unit < range.end(); ++unit) {
        units[static_cast<std::size_t>(unit)] = true;
      }
    }
    return units;
  };
  for (int round = 0; round < 2000; ++round) {
    const UnitRanges some = anyRanges();
    const UnitRanges ranges = joined(some), others = joined(anyRanges());
    ASSERT_EQ(painted(ranges), painted(some));
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      ASSERT_LT(ranges[i - 1].end(), ranges[i].begin);
    }
    std::vector<bool> expected = painted(ranges);
    const std::vector<bool> taken = painted(others);
    for (std::size_t unit = 0; unit < kUnits; ++unit) {
      if (taken[unit]) expected[unit] = false;
    }
    const UnitRanges rest = without(ranges, others);
    ASSERT_EQ(painted(rest), expected);
    for (std::size_t i = 0; i < rest.size(); ++i) {
      ASSERT_GT(rest[i].units, 0U);
      if (i > 0) {
        ASSERT_LE(rest[i - 1].end(), rest[i].begin);
      }
    }
  }
}

}  // namespace
}  // namespace ebbtide::allocator
