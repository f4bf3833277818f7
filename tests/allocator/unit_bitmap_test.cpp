// The bitmap against a vector, and the array that it lies in.
#include "unit_bitmap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <random>
#include <vector>

namespace ebbtide::allocator {
namespace {

TEST(UnitBitmapTest, DoesWhatAVectorDoes) {
  constexpr std::uint32_t kUnits = 1000;  // no multiple of a word
  std::mt19937_64 random(23);
  UnitBitmap bitmap(kUnits);
  std::vector<bool> model(kUnits);
  for (int operation = 0; operation < 100'000; ++operation) {
    const auto begin = static_cast<std::uint32_t>(random() % kUnits);
    const auto units = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(random() % (random() % 4 == 0 ? 300 : 12), kUnits - begin));
    const auto first = model.begin() + begin;
    const bool free = std::count(first, first + units, true) == 0;
    if (random() % 2 == 0) {
      ASSERT_EQ(bitmap.tryTake(begin, units), free);
      if (free) std::fill_n(first, units, true);
    } else {
      bitmap.clear(begin, units);
      std::fill_n(first, units, false);
    }
    const auto at = static_cast<std::uint32_t>(random() % kUnits);
    const auto end = at + 1 + static_cast<std::uint32_t>(random() % (kUnits - at));
    bool taken = false;
    const std::uint32_t length = bitmap.runLength(at, end, taken);
    ASSERT_EQ(taken, model[at]);
    ASSERT_EQ(length,
              std::find(model.begin() + at, model.begin() + end, !taken) - (model.begin() + at));
  }
}

TEST(SparseArrayTest, IsZeroedAndTakesNoMemoryUntilItIsTouched) {
  SparseArray<std::uint64_t> array(std::size_t{1} << 36);  // 512 GiB
  EXPECT_EQ(array[0], 0U);
  array[(std::size_t{1} << 36) - 1] = 7;
  EXPECT_EQ(array[(std::size_t{1} << 36) - 1], 7U);
}

TEST(SparseArrayTest, WithoutAddressesThrows) {
  EXPECT_THROW(SparseArray<std::uint64_t>(std::size_t{1} << 58), std::bad_alloc);
}

}  // namespace
}  // namespace ebbtide::allocator
