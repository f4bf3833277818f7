// Units of an arena, one by one and against an array that says what each is.
#include "arena_units.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace ebbtide::allocator {
namespace {

class ArenaUnitsTest : public testing::Test {
 protected:
  // All of it is mapped.
  void mapAll(const UnitRange& pages) {
    ASSERT_TRUE(units_.lacksOnlyPages(pages));
    units_.claim(pages);
    const auto end = static_cast<std::uint32_t>(pages.end());
    for (UnitRange hole = units_.nextHole(pages.begin, end); hole.units > 0;
         hole = units_.nextHole(pages.begin, end)) {
      units_.fill(hole, pages);
    }
    units_.settleAsBefore(pages);
  }
  Bytes live() const { return tracker_.liveBytes() / kUnitBytes; }

  BudgetTracker tracker_;
  ArenaUnits units_{tracker_, 1000};
};

TEST_F(ArenaUnitsTest, UpToTheTopAreHolesAtFirst) {
  EXPECT_FALSE(units_.take({0, 10}));
  EXPECT_FALSE(units_.lacksOnlyPages({0, 10}));  // there are no addresses yet
  units_.raiseTop(100);
  units_.raiseTop(50);  // it never falls
  EXPECT_EQ(units_.top(), 100U);
  EXPECT_EQ(units_.freeUnits(), 0);
  EXPECT_EQ(units_.holeUnits({0, 100}), 100);
  EXPECT_FALSE(units_.take({0, 10}));
  EXPECT_TRUE(units_.lacksOnlyPages({0, 10}));
  EXPECT_TRUE(units_.isBelowTop({90, 10}));
  EXPECT_FALSE(units_.isBelowTop({91, 10}));
  EXPECT_FALSE(units_.isBelowTop({UINT32_MAX, UINT32_MAX}));  // nor does the sum wrap
}

// Pages of 16: the place [20, 36) lies on [16, 48). What is beside it is free afterwards.
TEST_F(ArenaUnitsTest, WhatIsMappedBesideAPlaceIsFree) {
  units_.raiseTop(64);
  const UnitRange place{20, 16};
  const UnitRange pages = units_.around(place, 16);
  EXPECT_EQ(pages.begin, 16U);
  EXPECT_EQ(pages.units, 32U);
  EXPECT_EQ(units_.around(place, 512).units, 64U);  // no further than the top
  units_.claim(place);
  const UnitRange hole = units_.nextHole(16, 48);
  EXPECT_EQ(hole.begin, 16U);
  EXPECT_EQ(hole.units, 32U);
  units_.fill(hole, place);
  EXPECT_EQ(units_.nextHole(16, 48).units, 0U);
  EXPECT_FALSE(units_.take(place));  // it is on its way
  units_.settleAsBlock(place);
  EXPECT_EQ(units_.blockUnits(20), 16U);
  EXPECT_EQ(units_.blockUnits(21), 0U);
  EXPECT_EQ(live(), 16);
  EXPECT_EQ(units_.freeUnits(), 16);
  EXPECT_EQ(units_.runFrom(16).units, 4U);  // [16, 20)
  EXPECT_TRUE(units_.runFrom(16).is_free);
  EXPECT_TRUE(units_.take({36, 12}));
}

// [0, 16) is mapped, [16, 32) is not. The claim for [8, 24) is given up.
TEST_F(ArenaUnitsTest, AClaimThatIsGivenUpLeavesHolesAndFreeOnes) {
  units_.raiseTop(32);
  mapAll({0, 16});
  EXPECT_TRUE(units_.lacksOnlyPages({8, 16}));
  units_.claim({8, 16});
  EXPECT_FALSE(units_.take({8, 4}));
  units_.settleAsBefore({8, 16});
  EXPECT_EQ(units_.holeUnits({0, 32}), 16);
  EXPECT_EQ(units_.freeUnits(), 16);
  EXPECT_TRUE(units_.take({0, 16}));
  EXPECT_EQ(units_.freeUnits(), 0);
}

TEST_F(ArenaUnitsTest, ABlockInTheWayIsNoLackOfPages) {
  units_.raiseTop(32);
  mapAll({0, 16});
  ASSERT_TRUE(units_.take({4, 4}));
  EXPECT_FALSE(units_.lacksOnlyPages({0, 32}));
  EXPECT_TRUE(units_.lacksOnlyPages({8, 24}));
  EXPECT_EQ(units_.free(4), ArenaUnits::Freed::kReleased);
  EXPECT_TRUE(units_.lacksOnlyPages({0, 32}));
}

TEST_F(ArenaUnitsTest, ASharedBlockKeepsItsUnitsUntilItIsReleased) {
  units_.raiseTop(16);
  mapAll({0, 16});
  ASSERT_TRUE(units_.take({0, 8}));
  ASSERT_TRUE(units_.take({8, 8}));
  units_.markShared(0);
  units_.markShared(1);  // no block starts there
  EXPECT_EQ(units_.blockUnits(0), 8U);
  EXPECT_EQ(units_.free(0), ArenaUnits::Freed::kShared);
  EXPECT_EQ(units_.free(8), ArenaUnits::Freed::kReleased);
  EXPECT_EQ(units_.free(8), ArenaUnits::Freed::kNone);
  EXPECT_EQ(units_.free(1), ArenaUnits::Freed::kNone);
  EXPECT_EQ(live(), 0);
  EXPECT_TRUE(units_.anyBlock());
  EXPECT_FALSE(units_.take({0, 8}));
  units_.release(0);
  EXPECT_FALSE(units_.anyBlock());
  EXPECT_TRUE(units_.take({0, 16}));
}

TEST_F(ArenaUnitsTest, PagesThatGoAreNobodysMeanwhile) {
  units_.raiseTop(32);
  mapAll({0, 32});
  ASSERT_TRUE(units_.take({0, 4}));
  EXPECT_FALSE(units_.claimFree({0, 16}));
  ASSERT_TRUE(units_.claimFree({16, 16}));
  EXPECT_EQ(units_.freeUnits(), 12);
  EXPECT_FALSE(units_.take({16, 16}));
  EXPECT_FALSE(units_.lacksOnlyPages({16, 16}));
  units_.settleAsFree({16, 16});
  EXPECT_EQ(units_.freeUnits(), 28);
  ASSERT_TRUE(units_.claimFree({16, 16}));
  units_.settleAsHole({16, 16});
  EXPECT_EQ(units_.freeUnits(), 12);
  EXPECT_TRUE(units_.lacksOnlyPages({16, 16}));
}

constexpr char kHole = 'H', kFree = 'F', kBlock = 'B', kClaimed = 'C', kLeaving = 'L';

// One claim and one leaving range at a time, as pages move under one lock; blocks come and go
// between.
class ModelledUnits {
 public:
  ModelledUnits(std::uint32_t page_units, std::uint64_t seed)
      : page_units_(page_units), random_(seed), units_(tracker_, kUnits) {}

  void step() {
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2:
        take(anyRange());
        break;
      case 3:
      case 4:
        claim_ ? map() : claim(anyRange());
        break;
      case 5:
        leaving_ ? settleLeaving() : leave();
        break;
      case 6:
        if (random_() % 16 == 0) raiseTop();
        break;
      default:
        free();
    }
  }

  void check() {
    const auto count = [&](char state) { return std::count(model_.begin(), model_.end(), state); };
    std::string runs;
    while (runs.size() < model_.size()) {
      const ArenaUnits::Run run = units_.runFrom(static_cast<std::uint32_t>(runs.size()));
      ASSERT_GT(run.units, 0U);
      runs.append(run.units, run.is_free ? kFree : '.');
    }
    for (std::size_t unit = 0; unit < model_.size(); ++unit) {
      ASSERT_EQ(runs[unit] == kFree, model_[unit] == kFree) << unit;
      const auto block = blocks_.find(static_cast<std::uint32_t>(unit));
      ASSERT_EQ(units_.blockUnits(static_cast<std::uint32_t>(unit)),
                block == blocks_.end() ? 0 : block->second);
    }
    ASSERT_EQ(units_.runFrom(units_.top()).units, 0U);
    ASSERT_EQ(units_.holeUnits({0, units_.top()}), count(kHole));
    ASSERT_EQ(units_.freeUnits(), count(kFree) + count(kClaimed));
    ASSERT_EQ(tracker_.liveBytes(), count(kBlock) * kUnitBytes);
    if (!claim_ && !leaving_) checkMapped();
  }

 private:
  static constexpr std::uint32_t kUnits = 512;

  void checkMapped() {
    std::string mapped(model_.size(), kHole);
    units_.forEachMapped([&](const UnitRange& range, bool is_block) {
      std::fill_n(mapped.begin() + range.begin, range.units, is_block ? kBlock : kFree);
      if (is_block) {
        EXPECT_EQ(blocks_[range.begin], range.units);
      }
    });
    ASSERT_EQ(mapped, model_);
  }

  UnitRange anyRange() {
    const auto begin = static_cast<std::uint32_t>(random_() % kUnits);
    return {begin, static_cast<std::uint32_t>(1 + random_() % 40)};
  }
  bool isAll(const UnitRange& range, const std::string& states) const {
    return range.end() <= static_cast<std::int64_t>(model_.size()) &&
           model_.substr(range.begin, range.units).find_first_not_of(states) == std::string::npos;
  }
  void paint(const UnitRange& range, char state) {
    std::fill_n(model_.begin() + range.begin, range.units, state);
  }

  void raiseTop() {
    const auto top = static_cast<std::uint32_t>(random_() % (kUnits / page_units_ + 1));
    units_.raiseTop(top * page_units_);
    if (top * page_units_ > model_.size()) model_.resize(top * page_units_, kHole);
    ASSERT_EQ(units_.top(), model_.size());
  }

  void take(const UnitRange& wanted) {
    const bool is_free = isAll(wanted, {kFree});
    ASSERT_EQ(units_.take(wanted), is_free);
    if (is_free) become(wanted);
  }
  void become(const UnitRange& block) {
    paint(block, kBlock);
    blocks_[block.begin] = block.units;
  }
  void free() {
    if (blocks_.empty()) return;
    const auto block =
        std::next(blocks_.begin(), static_cast<std::ptrdiff_t>(random_() % blocks_.size()));
    ASSERT_EQ(units_.free(block->first), ArenaUnits::Freed::kReleased);
    paint({block->first, block->second}, kFree);
    blocks_.erase(block);
  }

  void claim(const UnitRange& wanted) {
    const bool any_hole = model_.find_first_of(std::string{kHole, kLeaving}) != std::string::npos;
    const bool possible = any_hole && isAll(wanted, {kFree, kHole});
    ASSERT_EQ(units_.lacksOnlyPages(wanted), possible);
    if (!possible) return;
    units_.claim(wanted);
    claim_ = wanted;
    for (std::int64_t unit = wanted.begin; unit < wanted.end(); ++unit) {
      char& state = model_[static_cast<std::size_t>(unit)];
      if (state == kFree) state = kClaimed;
    }
  }
  // A hole of it is mapped; or all are, and it becomes a block; or it is given up.
  void map() {
    const UnitRange pages = units_.around(*claim_, page_units_);
    ASSERT_EQ(pages.begin % page_units_, 0U);
    const auto end = static_cast<std::uint32_t>(pages.end());
    const UnitRange hole = units_.nextHole(pages.begin, end);
    if (hole.units == 0) {
      units_.settleAsBlock(*claim_);
      become(*claim_);
      claim_.reset();
    } else if (random_() % 4 == 0) {
      units_.settleAsBefore(*claim_);
      std::replace(model_.begin(), model_.end(), kClaimed, kFree);
      claim_.reset();
    } else {
      ASSERT_TRUE(isAll(hole, {kHole}));
      units_.fill(hole, *claim_);
      for (std::int64_t unit = hole.begin; unit < hole.end(); ++unit) {
        const bool inside = unit >= claim_->begin && unit < claim_->end();
        model_[static_cast<std::size_t>(unit)] = inside ? kClaimed : kFree;
      }
    }
  }

  void leave() {
    const UnitRange any = anyRange();
    const UnitRange pages{any.begin / page_units_ * page_units_, page_units_};
    if (pages.end() > static_cast<std::int64_t>(model_.size())) return;
    const bool is_free = isAll(pages, {kFree});
    ASSERT_EQ(units_.claimFree(pages), is_free);
    if (!is_free) return;
    paint(pages, kLeaving);
    leaving_ = pages;
  }
  void settleLeaving() {
    const bool unmapped = random_() % 2 == 0;
    unmapped ? units_.settleAsHole(*leaving_) : units_.settleAsFree(*leaving_);
    paint(*leaving_, unmapped ? kHole : kFree);
    leaving_.reset();
  }

  const std::uint32_t page_units_;
  std::mt19937_64 random_;
  BudgetTracker tracker_;
  ArenaUnits units_;
  std::string model_;  // up to the top
  std::map<std::uint32_t, std::uint32_t> blocks_;
  std::optional<UnitRange> claim_, leaving_;
};

class ArenaUnitsModelTest : public testing::TestWithParam<std::uint32_t> {};

TEST_P(ArenaUnitsModelTest, DoWhatAnArrayDoes) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ModelledUnits units(GetParam(), seed);
    for (int step = 0; step < 2000; ++step) {
      units.step();
      if (testing::Test::HasFatalFailure()) return;
      if (step % 8 == 0) units.check();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, ArenaUnitsModelTest, testing::Values(1, 16, 64));

}  // namespace
}  // namespace ebbtide::allocator
