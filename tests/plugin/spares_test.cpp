// What has ended leaves its memory to the next of its kind: blocks of one size, and containers.
#include "base/spares.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/spare_blocks.hpp"

namespace ebbtide::plugin {
namespace {

TEST(SpareBlocks, TheLastThatCameBackIsTheNextToGo) {
  struct OfThisTest {
    double numbers[4];
  };
  void* const one = SpareBlocks<OfThisTest>::take();
  void* const other = SpareBlocks<OfThisTest>::take();
  EXPECT_NE(one, other);
  SpareBlocks<OfThisTest>::giveBack(one);
  SpareBlocks<OfThisTest>::giveBack(other);
  EXPECT_EQ(SpareBlocks<OfThisTest>::take(), other);
  EXPECT_EQ(SpareBlocks<OfThisTest>::take(), one);
  SpareBlocks<OfThisTest>::giveBack(one);
  SpareBlocks<OfThisTest>::giveBack(other);
}

// 4 MiB of blocks of 1 MiB; of small ones 256; of larger ones one.
TEST(SpareBlocks, KeepsNoMoreThanFourMebibytes) {
  EXPECT_EQ((SpareBlocks<std::array<char, 1 << 20>>::kMost), 4u);
  EXPECT_EQ(SpareBlocks<char>::kMost, 256u);
  EXPECT_EQ((SpareBlocks<std::array<char, 8 << 20>>::kMost), 1u);
}

TEST(SpareAllocator, AnObjectTakesThePlaceOfTheLast) {
  struct OfThisTest {
    int number = 1;
  };
  const OfThisTest* first = nullptr;
  {
    const auto one = std::allocate_shared<OfThisTest>(SpareAllocator<OfThisTest>());
    first = one.get();
  }
  const auto next = std::allocate_shared<OfThisTest>(SpareAllocator<OfThisTest>());
  EXPECT_EQ(next.get(), first);
  EXPECT_EQ(next->number, 1);
}

TEST(Spares, AnEmptiedContainerKeepsItsPlaces) {
  Spares<std::vector<int>> spares(1000);
  EXPECT_EQ(spares.take().capacity(), 0u);
  std::vector<int> full(500, 7);
  const int* const place = full.data();
  spares.giveBack(std::move(full));
  std::vector<int> next = spares.take();
  EXPECT_TRUE(next.empty());
  EXPECT_GE(next.capacity(), 500u);
  EXPECT_EQ(next.data(), place);
  EXPECT_EQ(spares.take().capacity(), 0u);
}

TEST(Spares, TooLargeOnesAndTooManyAreFreed) {
  Spares<std::vector<int>> spares(1000);
  spares.giveBack(std::vector<int>(1001));
  EXPECT_EQ(spares.take().capacity(), 0u);
  for (int i = 0; i < 6; ++i) spares.giveBack(std::vector<int>(10));
  int kept = 0;
  while (spares.take().capacity() > 0) ++kept;
  EXPECT_EQ(kept, 4);
}

}  // namespace
}  // namespace ebbtide::plugin
