// The bins against a set.
#include "free_bins.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace ebbtide::allocator {
namespace {

constexpr std::uint32_t kRecords = 3000;

class FreeBinsTest : public testing::Test {
 protected:
  void add(ExtentId id, std::uint32_t units) {
    extents_[id] = {};
    extents_[id].units = units;
    bins_.add(id);
    model_.insert({units, id});
    sum_ += units;
  }
  void remove(std::set<std::pair<std::uint32_t, ExtentId>>::iterator from) {
    bins_.remove(from->second);
    sum_ -= from->first;
    model_.erase(from);
  }

  SparseArray<Extent> extents_{kRecords + 1};
  FreeBins bins_{extents_};
  std::set<std::pair<std::uint32_t, ExtentId>> model_;
  std::int64_t sum_ = 0;
};

TEST_F(FreeBinsTest, DoesWhatASetDoes) {
  std::mt19937_64 random(17);
  std::vector<ExtentId> outside;
  for (ExtentId id = 1; id <= kRecords; ++id) outside.push_back(id);
  for (int operation = 0; operation < 20'000; ++operation) {
    // Sizes of all magnitudes, up to the largest.
    const auto units = static_cast<std::uint32_t>((random() | 1U) >> (32 + random() % 32)) + 1;
    if (random() % 2 == 0 && !outside.empty()) {
      add(outside.back(), units);
      outside.pop_back();
    } else if (!model_.empty()) {
      auto from = model_.lower_bound({units, 0});
      if (from == model_.end()) from = model_.begin();
      outside.push_back(from->second);
      remove(from);
    }
    ASSERT_EQ(bins_.units(), sum_);
    const auto best = model_.lower_bound({units, 0});
    const ExtentId found = bins_.smallestAtLeast(units);
    if (found == 0) {
      // Only a fit in the bin of the size itself may be overlooked.
      ASSERT_TRUE(best == model_.end() || model_.rbegin()->first - units <= units / 8);
    } else {
      const std::uint32_t size = extents_[found].units;
      ASSERT_TRUE(model_.contains({size, found}));
      ASSERT_GE(size, units);
      // In its bin or the next that has one: an eighth from the best at most, twice.
      ASSERT_LE(size - best->first, size / 4);
    }
    if (operation % 500 != 0) continue;
    std::vector<std::pair<std::uint32_t, ExtentId>> seen;
    bins_.fromLargest([&](ExtentId id) {
      seen.emplace_back(extents_[id].units, id);
      return true;
    });
    for (std::size_t i = 1; i < seen.size(); ++i) {
      // Of one bin in any order.
      ASSERT_LE(seen[i].first, std::int64_t{seen[i - 1].first} + seen[i - 1].first / 8);
    }
    std::sort(seen.begin(), seen.end());
    ASSERT_TRUE(std::equal(seen.begin(), seen.end(), model_.begin(), model_.end()));
  }
}

TEST_F(FreeBinsTest, ExactSizesAreFoundExactly) {
  for (std::uint32_t units = 1; units <= 40; ++units) add(units, units);
  for (std::uint32_t units = 1; units <= 40; ++units) {
    EXPECT_EQ(extents_[bins_.smallestAtLeast(units)].units, units);
  }
  EXPECT_EQ(bins_.smallestAtLeast(41), 0U);
  EXPECT_EQ(bins_.smallestAtLeast(UINT32_MAX), 0U);
}

TEST_F(FreeBinsTest, TheNewestOfASizeComesFirst) {
  add(1, 100);
  add(2, 100);
  add(3, 100);
  EXPECT_EQ(bins_.smallestAtLeast(100), 3U);
  remove(model_.find({100, 3}));
  EXPECT_EQ(bins_.smallestAtLeast(100), 2U);
}

}  // namespace
}  // namespace ebbtide::allocator
