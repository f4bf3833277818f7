// The extents against an array that says of each unit what it is.
#include "extent_map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace ebbtide::allocator {
namespace {

constexpr char kLive = 'L', kFree = 'F', kUnmapped = 'U', kBusy = 'B';

class ModelledMap {
 public:
  ModelledMap(std::uint32_t units, std::uint32_t page_units, std::uint64_t seed)
      : units_(units),
        page_units_(page_units),
        random_(seed),
        map_(units, page_units),
        model_(units, kUnmapped) {}

  void step() {
    switch (random_() % 8) {
      case 0:
      case 1:
        take(anySize());
        break;
      case 2:
        takeRun(anySize());
        break;
      case 3:
        takePages(anySize());
        break;
      case 4:
        settleOne();
        break;
      default:
        giveBack();
    }
  }

  void check() const {
    std::uint32_t at = 0;
    std::int64_t free_units = 0;
    char last = 0;
    ExtentId before = 0;
    for (ExtentId id = map_.first(); id != 0; id = map_[id].after) {
      const Extent& extent = map_[id];
      ASSERT_EQ(extent.begin, at);  // they tile the range
      ASSERT_GT(extent.units, 0U);
      ASSERT_EQ(extent.before, before);
      const char state = letter(extent.state);
      ASSERT_EQ(std::count(model_.begin() + at, model_.begin() + at + extent.units, state),
                extent.units)
          << at;
      // Neighbours of a kind are one.
      if (state == kFree || state == kUnmapped) {
        ASSERT_NE(state, last) << at;
      }
      if (state == kUnmapped) {
        ASSERT_EQ(extent.begin % page_units_, 0U);
        ASSERT_EQ(extent.units % page_units_, 0U);
      }
      if (state == kFree) free_units += extent.units;
      ASSERT_EQ(map_.liveAt(at), state == kLive ? id : 0);
      at += extent.units;
      last = state;
      before = id;
    }
    ASSERT_EQ(at, units_);
    ASSERT_EQ(map_.freeUnits(), free_units);
    ASSERT_EQ(map_.anyLive(), !live_.empty());
  }

  void finish() {
    while (!pending_.empty()) settleOne();
    while (!live_.empty()) giveBack();
    check();
    // All of it is one free range or unmapped pages; the last ones may share a page with nothing.
    while (const ExtentId id = map_.takePages(units_)) {
      paint(map_[id].begin, map_[id].units, kUnmapped);
      map_.settleAsUnmapped(id);
    }
    check();
    EXPECT_EQ(map_.freeUnits(), 0);
    EXPECT_EQ(map_[map_.first()].units, units_);
  }

 private:
  struct Pending {
    ExtentId id;
    std::uint32_t block_units;  // 0: pages that are to be unmapped
    UnitRanges missing;
  };

  static char letter(ExtentState state) {
    switch (state) {
      case ExtentState::kLive:
        return kLive;
      case ExtentState::kFree:
        return kFree;
      case ExtentState::kUnmapped:
        return kUnmapped;
      default:
        return kBusy;
    }
  }

  std::uint32_t anySize() {
    const std::uint32_t most = random_() % 8 == 0 ? units_ / 2 : 40;
    return 1 + static_cast<std::uint32_t>(random_() % most);
  }

  void paint(std::uint32_t begin, std::uint32_t units, char state) {
    std::fill_n(model_.begin() + begin, units, state);
  }

  // The sizes of all ranges of one kind, or of two.
  std::vector<std::uint32_t> ranges(char one, char other) const {
    std::vector<std::uint32_t> sizes;
    std::uint32_t here = 0;
    for (const char state : model_) {
      if (state == one || state == other) {
        ++here;
      } else if (here > 0) {
        sizes.push_back(std::exchange(here, 0));
      }
    }
    if (here > 0) sizes.push_back(here);
    return sizes;
  }

  void take(std::uint32_t units) {
    const std::vector<std::uint32_t> free = ranges(kFree, kFree);
    std::uint32_t best = 0;
    for (const std::uint32_t size : free) {
      if (size >= units && (best == 0 || size < best)) best = size;
    }
    const ExtentId id = map_.take(units);
    if (id == 0) {
      // It may overlook a fit in the bin of the size itself, which is an eighth wide at most.
      ASSERT_LE(best, units + units / 8);
      return;
    }
    const std::uint32_t begin = map_[id].begin;
    ASSERT_EQ(map_[id].units, units);
    std::uint32_t found = 0;  // the range that it was cut from
    for (std::uint32_t at = begin; at < units_ && model_[at] == kFree; ++at) ++found;
    ASSERT_TRUE(begin == 0 || model_[begin - 1] != kFree);
    ASSERT_GE(found, units);
    ASSERT_LE(found, best + best / 4 + 1);  // two eighths: in the bin, and next to it
    becomeLive(id, units);
  }

  void becomeLive(ExtentId id, std::uint32_t units) {
    paint(map_[id].begin, units, kLive);
    live_.push_back(map_[id].begin);
  }

  void takeRun(std::uint32_t units) {
    const std::vector<std::uint32_t> loose = ranges(kFree, kUnmapped);
    const bool possible =
        std::any_of(loose.begin(), loose.end(), [&](std::uint32_t size) { return size >= units; });
    const std::uint32_t round_units = page_units_ << random_() % 4;
    Pending run{0, units, {}};
    run.id = map_.takeRun(units, round_units, run.missing);
    ASSERT_EQ(run.id != 0, possible) << units;
    if (run.id == 0) return;
    const Extent& extent = map_[run.id];
    ASSERT_GE(extent.units, units);
    std::uint32_t missing = 0;
    std::uint32_t at = extent.begin;
    for (const UnitRange& range : run.missing) {
      for (; at < range.begin; ++at) ASSERT_EQ(model_[at], kFree);
      for (; at < range.begin + range.units; ++at) ASSERT_EQ(model_[at], kUnmapped);
      missing += range.units;
      ASSERT_EQ(range.begin % page_units_, 0U);
      ASSERT_EQ(range.units % page_units_, 0U);
    }
    for (; at < extent.begin + extent.units; ++at) ASSERT_EQ(model_[at], kFree);
    // No free units beside the block but those of its first or last page, and of the rounding.
    ASSERT_LT(extent.units, units + page_units_ + round_units);
    // Never more than the block in whole pages, begun and ended within one, and the rounding.
    ASSERT_LE(missing, units + 2 * page_units_ + round_units);
    paint(extent.begin, extent.units, kBusy);
    pending_.push_back(std::move(run));
  }

  void takePages(std::uint32_t units) {
    const ExtentId id = map_.takePages(units);
    bool possible = false;
    for (std::uint32_t page = 0; page + page_units_ <= units_; page += page_units_) {
      possible |= std::count(model_.begin() + page, model_.begin() + page + page_units_, kFree) ==
                  page_units_;
    }
    ASSERT_EQ(id != 0, possible);
    if (id == 0) return;
    const Extent& extent = map_[id];
    ASSERT_EQ(extent.begin % page_units_, 0U);
    ASSERT_EQ(extent.units % page_units_, 0U);
    ASSERT_LE(extent.units, (units + page_units_ - 1) / page_units_ * page_units_);
    for (std::uint32_t i = 0; i < extent.units; ++i) ASSERT_EQ(model_[extent.begin + i], kFree);
    paint(extent.begin, extent.units, kBusy);
    pending_.push_back({id, 0, {}});
  }

  void settleOne() {
    if (pending_.empty()) return;
    std::swap(pending_[random_() % pending_.size()], pending_.back());
    const Pending pending = pending_.back();
    pending_.pop_back();
    const std::uint32_t begin = map_[pending.id].begin;
    const std::uint32_t units = map_[pending.id].units;
    const bool went_well = random_() % 2 == 0;
    if (pending.block_units == 0) {
      paint(begin, units, went_well ? kUnmapped : kFree);
      if (went_well) {
        map_.settleAsUnmapped(pending.id);
      } else {
        map_.settleAsFree(pending.id);
      }
    } else if (went_well) {
      paint(begin, units, kFree);
      map_.settleAsBlock(pending.id, pending.block_units);
      becomeLive(map_.liveAt(begin), pending.block_units);
    } else {
      paint(begin, units, kFree);
      for (const UnitRange& range : pending.missing) {
        paint(range.begin, range.units, kUnmapped);
      }
      map_.settleAsBefore(pending.id, pending.missing);
    }
  }

  void giveBack() {
    if (live_.empty()) return;
    std::swap(live_[random_() % live_.size()], live_.back());
    const ExtentId id = map_.liveAt(live_.back());
    live_.pop_back();
    ASSERT_NE(id, 0U);
    paint(map_[id].begin, map_[id].units, kFree);
    map_.giveBack(id);
  }

  const std::uint32_t units_, page_units_;
  std::mt19937_64 random_;
  ExtentMap map_;
  std::vector<char> model_;
  std::vector<std::uint32_t> live_;  // where they begin
  std::vector<Pending> pending_;
};

class ExtentMapTest : public testing::TestWithParam<std::uint32_t> {};

INSTANTIATE_TEST_SUITE_P(PageUnits, ExtentMapTest, testing::Values(1U, 4U, 16U, 64U));

TEST_P(ExtentMapTest, DoesWhatAnArrayDoes) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    ModelledMap map(1024, GetParam(), seed);
    for (int operation = 0; operation < 5000; ++operation) {
      map.step();
      ASSERT_NO_FATAL_FAILURE(map.check()) << operation;
      if (testing::Test::HasFailure()) return;
    }
    map.finish();
  }
}

// ├ unmapped 16 ┤ free 8 ├ unmapped 16 ┤ live ... : 40 need both sides of what is free.
TEST(ExtentMapEdgeTest, ARunMayBeginAndEndUnmapped) {
  ExtentMap map(64, 1);
  UnitRanges missing;
  map.settleAsBlock(map.takeRun(64, 1, missing), 64);
  ASSERT_EQ(missing.size(), 1U);
  map.giveBack(map.liveAt(0));
  const ExtentId front = map.take(16);
  const ExtentId middle = map.take(8);
  const ExtentId back = map.take(16);
  ASSERT_EQ(map[back].begin, 24U);
  const ExtentId rest = map.take(24);
  ASSERT_NE(rest, 0U);
  map.giveBack(front);
  map.settleAsUnmapped(map.takePages(16));
  map.giveBack(back);
  map.settleAsUnmapped(map.takePages(16));
  map.giveBack(middle);
  const ExtentId run = map.takeRun(40, 1, missing);
  ASSERT_NE(run, 0U);
  EXPECT_EQ(map[run].begin, 0U);
  ASSERT_EQ(missing.size(), 2U);  // 16 before and 16 behind
  EXPECT_EQ(missing[0].units, 16U);
  EXPECT_EQ(missing[1].begin, 24U);
  map.settleAsBefore(run, missing);
  EXPECT_EQ(map.freeUnits(), 8);
  EXPECT_EQ(map.takeRun(41, 1, missing), 0U);
  EXPECT_EQ(map.takeRun(UINT32_MAX, 1, missing), 0U);
}

// ├ free 8 ┤ unmapped 8 ├ free 16 ┤: 28 units lack 8, and take 20 of 24 that are free.
TEST(ExtentMapEdgeTest, WhatTheBlockDoesNotNeedStaysFree) {
  ExtentMap map(32, 1);
  UnitRanges missing;
  map.settleAsBlock(map.takeRun(32, 1, missing), 32);
  map.giveBack(map.liveAt(0));
  const ExtentId front = map.take(8);
  const ExtentId middle = map.take(8);
  const ExtentId back = map.take(16);
  map.giveBack(middle);
  map.settleAsUnmapped(map.takePages(8));
  map.giveBack(front);
  map.giveBack(back);
  const ExtentId run = map.takeRun(28, 1, missing);
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_EQ(missing[0].units, 8U);
  EXPECT_EQ(map[run].units, 28U);
  EXPECT_EQ(map.freeUnits(), 4);
  map.settleAsBefore(run, missing);
  EXPECT_EQ(map.freeUnits(), 24);
  map.settleAsBlock(map.takeRun(28, 1, missing), 28);
  EXPECT_EQ(map.freeUnits(), 4);
}

// 64 blocks of 24 units with 16 between them: none of the free ranges of 24 has a page of 16 at
// the right place but for those that begin on one. All of them are found, however many come first.
TEST(ExtentMapEdgeTest, APageIsFoundBehindManyStretchesWithoutOne) {
  constexpr std::uint32_t kCount = 64;
  ExtentMap map(4096, 16);
  UnitRanges missing;
  map.settleAsBlock(map.takeRun(4096, 16, missing), 4096);
  map.giveBack(map.liveAt(0));
  // 8 units before each range of 24: it begins at 8, 8 + 40, ...; 40 i + 8 is a multiple of 16
  // for odd i only if 8 (5 i + 1) is, so for odd i.
  std::vector<ExtentId> freed;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(map[map.take(8)].begin, 40 * i);
    const ExtentId between = map.take(24);
    ASSERT_EQ(map[between].begin, 40 * i + 8);
    ASSERT_EQ(map[map.take(8)].begin, 40 * i + 32);
    freed.push_back(between);
  }
  const ExtentId rest = map.take(4096 - 48 * kCount / 48 * 40);
  ASSERT_NE(rest, 0U);
  // The newest come first in their bin: first those on a page, then all the others.
  for (std::uint32_t i = 1; i < kCount; i += 2) map.giveBack(freed[i]);
  for (std::uint32_t i = 0; i < kCount; i += 2) map.giveBack(freed[i]);
  // 40 i + 8 for even i is 8 mod 16: 24 units from there hold the page at 40 i + 16 to 32.
  std::uint32_t pages = 0;
  while (const ExtentId id = map.takePages(1)) {
    map.settleAsUnmapped(id);
    ++pages;
  }
  EXPECT_EQ(pages, kCount);
}

}  // namespace
}  // namespace ebbtide::allocator
