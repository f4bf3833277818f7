// Near the budget: free pages serve whatever is asked for, wherever they lie.
#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "budget_fixture.hpp"

namespace ebbtide::allocator::test {
namespace {

using FreePagesTest = BudgetTest;

// Pages that a run holds, and its block does not need, are no less free than others.
TEST_F(FreePagesTest, WhatRoomAndFreePagesHoldFits) {
  constexpr Bytes kBudget = 1000 * kPage;
  stack_.limit(kBudget);
  std::mt19937_64 random(1);
  std::vector<void*> blocks;
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    if (!blocks.empty() && random() % 3 == 0) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      stack_->deallocate(blocks.back());
      blocks.pop_back();
    }
    const Bytes bytes = kPage * static_cast<Bytes>(9 + random() % 120);  // none is small
    const Bytes had = stack_.budgetTracker().roomBytes() + stats().cached_bytes;
    if (void* block = allocate(bytes)) {
      blocks.push_back(block);
    } else {
      ASSERT_GT(bytes, had) << i;
      ++refused;
      stack_->deallocate(blocks.back());
      blocks.pop_back();
    }
  }
  EXPECT_GT(refused, 1000);  // some 6,700, half as many as fit
  freeAll(blocks);
}

// 28 KiB are free, and 4 KiB may be mapped. The freed block's pages serve the next one: the budget
// has no 32 KiB for it behind them.
TEST_F(FreePagesTest, AnEmptyChunkIsCarvedAnew) {
  stack_.limit(32 * kKiB);
  stack_->deallocate(allocate(28 * kKiB));
  void* block = allocate(32 * kKiB);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(stats().mapped_bytes, 32 * kKiB);
  stack_->deallocate(block);
  // What is mapped suffices.
  block = allocate(24 * kKiB);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(stats().mapped_bytes, 32 * kKiB);
  stack_->deallocate(block);
}

// Blocks of one page more than the small pool's largest keep apart what is freed between them.
TEST_F(FreePagesTest, ScatteredPagesMoveToWhereABlockFits) {
  constexpr Bytes kBlock = 40 * kKiB;  // ten pages
  stack_.limit(100 * kBlock);
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(allocate(kBlock));
  ASSERT_NE(blocks.back(), nullptr);
  std::vector<void*> kept;
  for (std::size_t i = 0; i < 100; ++i) {
    if (i % 2 == 0) {
      stack_->deallocate(blocks[i]);
    } else {
      kept.push_back(blocks[i]);
    }
  }
  // 50 extents of ten pages are one block now.
  void* large = allocate(50 * kBlock);
  EXPECT_NE(large, nullptr);
  EXPECT_EQ(stats().mapped_bytes, 100 * kBlock);
  EXPECT_EQ(stats().mapped_peak_bytes, 100 * kBlock);
  freeAll(kept);
  stack_->deallocate(large);
}

TEST_F(FreePagesTest, WhatIsFreeIsUsedBeforeMoreIsMapped) {
  void* first = allocate(4 * kMiB);
  void* barrier = allocate(64 * kKiB);
  stack_->deallocate(first);
  const int maps = stack_.spy().maps;
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocate(kMiB));  // cut from it
  EXPECT_EQ(stack_.spy().maps, maps);
  EXPECT_EQ(*std::min_element(blocks.begin(), blocks.end()), first);
  std::sort(blocks.begin(), blocks.end());
  freeAll({blocks[2], blocks[0], blocks[1]});  // joined at once
  void* three = allocate(3 * kMiB);
  EXPECT_EQ(three, first);
  EXPECT_EQ(stack_.spy().maps, maps);
  freeAll({three, blocks[3], barrier});
}

// Free neighbours of what is missing are mapped already: only what they lack is debited.
TEST_F(FreePagesTest, AFreeStretchGrowsWhereItIs) {
  stack_.limit(5 * kMiB);
  void* first = allocate(2 * kMiB);
  stack_->deallocate(first);
  EXPECT_EQ(allocate(3 * kMiB), first);
  EXPECT_EQ(stats().mapped_bytes, 3 * kMiB);
  EXPECT_EQ(stack_.spy().unmaps, 0);
  stack_->deallocate(first);
}

}  // namespace
}  // namespace ebbtide::allocator::test
