// The budget: what is mapped, when it is refused, what the cache gives back.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "budget_fixture.hpp"

namespace ebbtide::allocator::test {
namespace {

TEST_F(BudgetTest, ExactlyTheBudgetFitsAndOnePageMoreDoesNot) {
  stack_.limit(2 * kMiB);
  void* first = allocate(kMiB);
  void* second = allocate(kMiB);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(allocate(64 * kKiB), nullptr);
  EXPECT_EQ(allocate(1), nullptr);  // a chunk of one page does not fit either
  EXPECT_EQ(stats().mapped_bytes, 2 * kMiB);
  EXPECT_EQ(stats().budget_violations, 0);
  freeAll({first, second});
}

TEST_F(BudgetTest, TheMarginCountsAsMapped) {
  stack_.limit(2 * kMiB);
  stack_.memory().setMargin(kMiB);
  void* first = allocate(kMiB);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(allocate(64 * kKiB), nullptr);
  stack_.memory().setMargin(kMiB - 64 * kKiB);
  void* second = allocate(64 * kKiB);
  EXPECT_NE(second, nullptr);
  freeAll({first, second});
  EXPECT_EQ(stats().margin_bytes, kMiB - 64 * kKiB);
}

// Both blocks lie in one chunk: free are what is mapped less one of them, then less both.
TEST_F(BudgetTest, TheSlackIsToldOfTheMomentOfThePeak) {
  const Bytes block = stack_.memory().blockBytesFor(1000);
  void* first = allocate(1000);
  EXPECT_EQ(stats().slack_at_peak_bytes, kChunk - block);
  void* second = allocate(1000);
  EXPECT_EQ(stats().slack_at_peak_bytes, kChunk - 2 * block);
  stack_->deallocate(first);
  EXPECT_EQ(stats().slack_at_peak_bytes, kChunk - 2 * block);
  stack_->deallocate(second);
}

// A loader allocates samples, puts them together and frees them. Their eight chunks are empty at
// the peak, and make room for a block that has no other.
TEST_F(BudgetTest, WhatCanBeUnmappedIsNoSlack) {
  const Bytes block = stack_.memory().blockBytesFor(1000);
  void* first = allocate(1000);
  std::vector<void*> samples;
  for (int i = 0; i < 16; ++i) samples.push_back(allocate(32 * kKiB));
  freeAll(samples);
  void* large = allocate(kMiB);
  EXPECT_GE(stats().mapped_bytes, kMiB + 8 * kChunk);
  EXPECT_EQ(stats().slack_at_peak_bytes, kChunk - block);
  stack_.limit(2 * kMiB + kChunk);
  void* other = allocate(kMiB);
  EXPECT_NE(other, nullptr);
  freeAll({first, large, other});
}

TEST_F(BudgetTest, MoreThanTheWholeBudgetCostsNothing) {
  stack_.limit(2 * kMiB);
  stack_->deallocate(allocate(kMiB));
  EXPECT_EQ(allocate(2 * kMiB + kPage), nullptr);
  EXPECT_EQ(stats().cached_bytes, kMiB);  // nothing was unmapped for it
}

TEST_F(BudgetTest, TheDebitComesBeforeTheMappingAndTheCreditAfterTheUnmapping) {
  Bytes during = 0;
  stack_.spy().on_map = [&](Bytes) { during = stack_.budgetTracker().mappedBytes(); };
  void* block = allocate(kMiB);
  EXPECT_EQ(during, stack_.budgetTracker().mappedBytes());
  EXPECT_GE(during, kMiB);
  stack_.spy().on_unmap = [&](void*, Bytes) { during = -stack_.budgetTracker().mappedBytes(); };
  const Bytes before = stack_.budgetTracker().mappedBytes();
  stack_->deallocate(block);
  stack_.memory().releaseCached();
  EXPECT_EQ(during, -before);
}

TEST_F(BudgetTest, NoPoolsLockIsHeldWhileTheDriverRuns) {
  void* other = allocate(kMiB);
  stack_.spy().on_map = [&](Bytes) {
    // On another thread, which would wait for ever.
    std::thread([&] {
      stack_->deallocate(other);
      EXPECT_EQ(stack_->blockBytes(nullptr), 0);
      other = allocate(kMiB);
    }).join();
  };
  void* block = allocate(4 * kMiB);
  stack_.spy().on_map = nullptr;
  freeAll({block, other});
}

TEST_F(BudgetTest, ARefusedMappingIsNeitherAnAllocationNorAnOverrun) {
  stack_.memory().limitOverrun(0);
  stack_.spy().refuse_maps = 100;
  allocate(kMiB);
  allocate(100);
  EXPECT_EQ(stats().allocations, 0);
  EXPECT_EQ(stats().budget_violations, 0);
  stack_.spy().refuse_maps = 0;
}

TEST_F(BudgetTest, ARefusalGivesTheFreePagesBackAndTriesAgain) {
  stack_.spy().capacity_bytes = 6 * kMiB;  // of the system; there is no budget
  stack_.memory().limitOverrun(0);
  stack_->deallocate(allocate(4 * kMiB, kOne));
  void* block = allocate(5 * kMiB, kTwo);
  EXPECT_NE(block, nullptr);
  EXPECT_LE(stats().mapped_bytes, 6 * kMiB);
  EXPECT_EQ(allocate(3 * kMiB, kOne), nullptr);
  stack_->deallocate(block);
}

// 96 MiB of addresses for large blocks: the last 93 are a block, and of the first three the middle
// one is free and the others unmapped. 3 MiB need both; the second is refused, so the first goes
// back.
TEST_F(BudgetTest, AMappingThatFailsHalfwayIsUndone) {
  Stack stack({.reserve_bytes = 128 * kMiB});
  stack.memory().limitOverrun(0);
  std::vector<void*> blocks;
  for (const Bytes bytes : {kMiB, kMiB, kMiB, 93 * kMiB}) {
    blocks.push_back(stack->allocate(size(bytes), Stream::kDefault));
    ASSERT_NE(blocks.back(), nullptr);
  }
  stack->deallocate(blocks[0]);
  stack->deallocate(blocks[2]);
  stack.memory().releaseCached();
  stack->deallocate(blocks[1]);
  const int maps = stack.spy().maps;
  std::atomic<int> calls{0};
  stack.spy().on_map = [&](Bytes) { stack.spy().refuse_maps = ++calls == 1 ? 0 : 100; };
  EXPECT_EQ(stack->allocate(size(3 * kMiB), Stream::kDefault), nullptr);
  EXPECT_GE(stack.spy().maps, maps + 2);
  EXPECT_EQ(stack.spy().unmaps, 3);  // two at the beginning
  stack.spy().on_map = nullptr;
  stack.spy().refuse_maps = 0;
  EXPECT_EQ(stack.budgetTracker().mappedBytes(), 94 * kMiB);
  EXPECT_EQ(stack.memory().statistics().cached_bytes, kMiB);
  EXPECT_EQ(stack->allocate(size(3 * kMiB), Stream::kDefault), blocks[0]);
  stack->deallocate(blocks[0]);
  stack->deallocate(blocks[3]);
  stack.expectSound();
}

TEST_F(BudgetTest, AnOverrunIsCountedAndPaidBackAtTheFree) {
  stack_.memory().setBudget(3 * kMiB);  // overrun is allowed unless forbidden
  void* first = allocate(2 * kMiB);
  void* second = allocate(kMiB);
  stack_->deallocate(second);
  // 2 live, 1 cached: 2 more make 4 even without the cache, so it is used and the budget overrun.
  void* third = allocate(2 * kMiB);
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(stats().mapped_bytes, 4 * kMiB);
  EXPECT_EQ(stats().budget_violations, 1);
  stack_->deallocate(third);  // 4 > 3: one goes to the system, one stays
  EXPECT_EQ(stats().mapped_bytes, 3 * kMiB);
  EXPECT_EQ(stats().cached_bytes, kMiB);
  stack_->deallocate(first);
  EXPECT_EQ(stats().cached_bytes, 3 * kMiB);
}

TEST_F(BudgetTest, AnOverrunLetsInNoMoreThanTheBlockNeeds) {
  stack_.memory().setBudget(kMiB);
  void* large = allocate(kMiB);
  void* small = allocate(100);
  EXPECT_EQ(stats().mapped_bytes, kMiB + kPage);  // not a whole chunk
  EXPECT_EQ(stats().budget_violations, 1);
  freeAll({large, small});
}

TEST_F(BudgetTest, ASmallerBudgetTakesTheCacheFirstAndTheFreesLater) {
  stack_.limit(8 * kMiB);
  void* kept = allocate(3 * kMiB);
  void* other = allocate(2 * kMiB);
  void* cached = allocate(kMiB);
  stack_->deallocate(cached);
  stack_.memory().setBudget(4 * kMiB);  // 6 mapped, 1 of it cached: 5 remain
  EXPECT_EQ(stats().mapped_bytes, 5 * kMiB);
  EXPECT_EQ(allocate(kMiB), nullptr);
  stack_->deallocate(other);  // 5 > 4: one goes to the system
  EXPECT_EQ(stats().mapped_bytes, 4 * kMiB);
  EXPECT_EQ(stats().cached_bytes, kMiB);
  stack_->deallocate(kept);
  stack_.memory().setBudget(0);
  EXPECT_EQ(stats().mapped_bytes, 0);
  EXPECT_EQ(allocate(1), nullptr);
  stack_.memory().setBudget(-1);
  EXPECT_EQ(allocate(1), nullptr);
}

TEST_F(BudgetTest, AChunkShrinksToWhatIsLeft) {
  stack_.limit(kMiB + kPage);
  void* large = allocate(kMiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(allocate(64));  // a page of them
  EXPECT_EQ(stats().mapped_bytes, kMiB + kPage);
  EXPECT_NE(blocks.back(), nullptr);
  EXPECT_EQ(allocate(64), nullptr);
  freeAll(blocks);
  stack_->deallocate(large);
}

TEST_F(BudgetTest, EmptyChunksMakeWayForLargeBlocks) {
  stack_.limit(8 * kMiB);
  std::vector<void*> blocks;
  while (void* block = allocate(1000)) blocks.push_back(block);
  EXPECT_EQ(stats().mapped_bytes, 8 * kMiB);
  freeAll(blocks);
  void* large = allocate(8 * kMiB);
  EXPECT_NE(large, nullptr);
  stack_->deallocate(large);
}

// 256 blocks of 64 KiB leave 32,768 slots of 512 bytes each time: the lists are read once for all
// chunks that go, not once for each.
TEST_F(BudgetTest, ManyEmptyChunksGoAtOnce) {
  std::vector<void*> blocks;
  for (int i = 0; i < 500'000; ++i) blocks.push_back(allocate(200));
  freeAll(blocks);
  stack_.memory().releaseCached();
  EXPECT_EQ(stats().mapped_bytes, 0);
}

// Without a budget, what is mapped stays within the peak of what lived, a sixteenth, and 16 MiB.
TEST_F(BudgetTest, WithoutABudgetMappedStaysNearTheLivePeak) {
  std::mt19937_64 random(5);
  std::vector<void*> live;
  for (int round = 0; round < 400; ++round) {
    live.push_back(allocate(static_cast<Bytes>(64 * kKiB + random() % (4 * kMiB))));
    while (live.size() > 20 || (!live.empty() && random() % 4 == 0)) {
      std::swap(live[random() % live.size()], live.back());
      stack_->deallocate(live.back());
      live.pop_back();
    }
    const Bytes peak = stack_.budgetTracker().lifetimePeakBytes();
    // And up to 2 MiB more for a block's whole huge page.
    ASSERT_LE(stats().mapped_bytes, peak + std::max(peak / 16, 16 * kMiB) + 2 * kMiB);
  }
  freeAll(live);
}

// A unmaps slowly; B wants the same bytes meanwhile.
//
//   A: releaseCached ─ unmap .........
//   B:                  allocate ─ waits ─ map
TEST_F(BudgetTest, WhatAnotherThreadIsGivingBackIsWaitedFor) {
  stack_.limit(3 * kMiB);
  void* shares_page = allocate(3 * kMiB);
  stack_->deallocate(shares_page);
  std::atomic<bool> unmapping{false};
  stack_.spy().on_unmap = [&](void*, Bytes) {
    if (unmapping.exchange(true)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  };
  std::thread thread([&] { stack_.memory().releaseCached(); });
  while (!unmapping) std::this_thread::yield();
  void* large = allocate(2 * kMiB, kTwo);
  thread.join();
  EXPECT_NE(large, nullptr);
  stack_.spy().on_unmap = nullptr;
  stack_->deallocate(large);
}

// Each thread holds at most one block of at most a quarter of the budget, so there is always
// enough, whatever the others map, unmap and hold in their streams' pools.
TEST_F(BudgetTest, NobodyFailsWhileThereIsEnough) {
  stack_.limit(4 * kMiB);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      for (int round = 0; round < 2000; ++round) {
        const Bytes pages = 9 + static_cast<Bytes>(random() % 248);  // 9 to 256 pages
        void* block = allocate(pages * kPage, Stream{thread % 2});
        if (block == nullptr) ++failures;
        stack_->deallocate(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_LE(stats().mapped_peak_bytes, 4 * kMiB);
}

// One stream, one thread: a large block is refused only if live blocks and it are over the budget.
TEST_F(BudgetTest, FragmentsNeverRefuse) {
  constexpr Bytes kBudget = 20 * kMiB;
  stack_.limit(kBudget);
  std::mt19937_64 random(9);
  std::vector<void*> live;
  for (int round = 0; round < 20'000; ++round) {
    const Bytes bytes =
        kPage * (9 + static_cast<Bytes>(random() % (random() % 8 == 0 ? 1200 : 60)));
    const Bytes live_bytes = stack_.budgetTracker().liveBytes();
    void* block = allocate(bytes);
    ASSERT_EQ(block != nullptr, live_bytes + bytes <= kBudget) << round;
    if (block != nullptr) live.push_back(block);
    while (block == nullptr ? stack_.budgetTracker().liveBytes() + bytes > kBudget
                            : random() % 100 < 40 && !live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      stack_->deallocate(live.back());
      live.pop_back();
      if (live.empty()) break;
    }
  }
  freeAll(live);
}

// Two extents of 3 MiB are free. The block of 12 can begin with the second one; the 9 that it lacks
// exceed the budget of 8 in any case. The first extent goes before: 1 MiB lives, and 12 are mapped
// for the block.
TEST_F(BudgetTest, AnOverrunLetsInWhatLivesAndNoCache) {
  stack_.memory().setBudget(8 * kMiB);
  void* first = allocate(3 * kMiB);
  void* between = allocate(kMiB);
  void* second = allocate(3 * kMiB);
  freeAll({first, second});
  void* block = allocate(12 * kMiB);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(stats().mapped_peak_bytes, 13 * kMiB);
  EXPECT_EQ(stats().mapped_bytes, 13 * kMiB);
  EXPECT_EQ(stats().budget_violations, 1);
  freeAll({between, block});
}

TEST_F(BudgetTest, StatisticsFollowTheBlocks) {
  void* large = allocate(2 * kMiB);
  void* small = allocate(1000);  // 16 grains of 64
  EXPECT_EQ(stats().allocated_bytes, 2 * kMiB + 1024);
  EXPECT_EQ(stats().allocations, 2);
  freeAll({large, small});
  EXPECT_EQ(stats().allocated_bytes, 0);
  EXPECT_EQ(stats().allocated_peak_bytes, 2 * kMiB + 1024);
  EXPECT_EQ(stats().cached_bytes, stats().mapped_bytes);
  stack_.memory().releaseCached();
  stack_.memory().resetPeaks();
  EXPECT_EQ(stats().mapped_bytes, 0);
  EXPECT_EQ(stats().mapped_peak_bytes, 0);
  EXPECT_EQ(stats().allocated_peak_bytes, 0);
  EXPECT_EQ(stats().reclaims, 0);
}

// Two blocks of 3 MiB side by side, in pages of 2 MiB: 6 MiB are three pages. While the second one
// lives, of the first one's 3 MiB only the first page can go.
TEST_F(BudgetTest, CachedBytesAreThoseOfWholePages) {
  Stack stack({.page_bytes = kHugePage});
  void* first = stack->allocate(size(3 * kMiB), kOne);
  void* second = stack->allocate(size(3 * kMiB), kOne);
  ASSERT_EQ(static_cast<char*>(second) - static_cast<char*>(first), 3 * kMiB);
  const auto cached = [&] { return stack.memory().statistics().cached_bytes; };
  stack->deallocate(first);
  EXPECT_EQ(cached(), kHugePage);
  stack.memory().releaseCached();
  EXPECT_EQ(cached(), 0);
  EXPECT_EQ(stack.budgetTracker().mappedBytes(), 2 * kHugePage);
  stack->deallocate(second);
  EXPECT_EQ(cached(), 2 * kHugePage);
  stack.memory().releaseCached();
  EXPECT_EQ(stack.budgetTracker().mappedBytes(), 0);
  stack.expectSound();
}

TEST_F(BudgetTest, CachedBytesOfAnArenaAreThoseOfWholePages) {
  Stack stack({.page_bytes = kHugePage});
  stack.placed().beginStep(Stream::kDefault, sequenceOf({3 * kMiB, 3 * kMiB}),
                           /*this_thread_only=*/false);
  void* first = stack->allocate(size(3 * kMiB), Stream::kDefault);
  void* second = stack->allocate(size(3 * kMiB), Stream::kDefault);
  ASSERT_TRUE(stack.placed().owns(first) && stack.placed().owns(second));
  stack->deallocate(first);
  EXPECT_EQ(stack.memory().statistics().cached_bytes, kHugePage);
  stack.memory().releaseCached();
  EXPECT_EQ(stack.budgetTracker().mappedBytes(), 2 * kHugePage);
  EXPECT_EQ(stack.memory().statistics().cached_bytes, 0);
  stack->deallocate(second);
  EXPECT_EQ(stack.memory().statistics().cached_bytes, 2 * kHugePage);
  stack.memory().releaseCached();
  EXPECT_EQ(stack.budgetTracker().mappedBytes(), 0);
  stack.expectSound();
}

TEST_F(BudgetTest, AStreamTooManyGetsNothingAndHarmsNobody) {
  Stack stack({.reserve_bytes = 32 * kMiB});
  std::vector<void*> blocks;
  for (std::uint64_t stream = 0; stream < PoolResource::kMostStreams; ++stream) {
    blocks.push_back(stack->allocate(100, Stream{stream}));
    ASSERT_NE(blocks.back(), nullptr) << stream;
  }
  const Stream one_more{PoolResource::kMostStreams};
  const Bytes mapped = stack.budgetTracker().mappedBytes();
  EXPECT_EQ(stack->allocate(100, one_more), nullptr);
  EXPECT_EQ(stack->allocate(size(kMiB), one_more), nullptr);
  stack.memory().pool().keepMapped(one_more, true);
  EXPECT_EQ(stack.budgetTracker().mappedBytes(), mapped);
  stack->recordStream(blocks[0], one_more);  // it may use what others have
  for (void* block : blocks) stack->deallocate(block);
  stack.events().finishAll();
  stack.memory().releaseCached();
  EXPECT_EQ(stack.budgetTracker().mappedBytes(), 0);
  void* block = stack->allocate(100, Stream{7});
  EXPECT_NE(block, nullptr);
  stack->deallocate(block);
  stack.expectSound();
}

}  // namespace
}  // namespace ebbtide::allocator::test
