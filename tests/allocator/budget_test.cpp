// The ledger: what is mapped, when it is refused, what the cache gives back.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "spy_backend.hpp"

namespace ebbtide::allocator::test {
namespace {

TEST(BudgetTest, ExactlyTheBudgetFitsAndOnePageMoreDoesNot) {
  SpiedResource spied;
  spied.limit(2 * kMiB);
  void* first = spied->allocate(requestFor(kMiB));
  void* second = spied->allocate(requestFor(kMiB));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(spied->allocate(requestFor(64 * kKiB)), nullptr);
  EXPECT_EQ(spied->allocate(1), nullptr);  // a chunk of one page does not fit either
  EXPECT_EQ(spied->statistics().mapped_bytes, 2 * kMiB);
  EXPECT_EQ(spied->statistics().budget_violations, 0);
  spied->deallocate(first);
  spied->deallocate(second);
}

// Both blocks lie in one chunk: free are what is mapped less one of them, then less both.
TEST(BudgetTest, TheSlackIsToldOfTheMomentOfThePeak) {
  SpiedResource spied;
  const Bytes block = CachingResource::blockBytesFor(1000);
  void* first = spied->allocate(1000);
  const Bytes mapped = spied->statistics().mapped_bytes;
  EXPECT_EQ(spied->statistics().slack_at_peak_bytes, mapped - block);
  void* second = spied->allocate(1000);
  ASSERT_EQ(spied->statistics().mapped_bytes, mapped);
  spied->deallocate(first);
  EXPECT_EQ(spied->statistics().slack_at_peak_bytes, mapped - 2 * block);
  spied->resetPeaks();
  EXPECT_EQ(spied->statistics().slack_at_peak_bytes, mapped - block);
  spied->deallocate(second);
}

TEST(BudgetTest, MoreThanTheWholeBudgetCostsNothing) {
  SpiedResource spied;
  spied.limit(2 * kMiB);
  spied->deallocate(spied->allocate(requestFor(kMiB)));
  EXPECT_EQ(spied->allocate(requestFor(2 * kMiB + kPage)), nullptr);
  EXPECT_EQ(spied->statistics().cached_bytes, kMiB);  // nothing was released for it
}

TEST(BudgetTest, TheDebitComesBeforeTheMappingAndNoLockIsHeld) {
  SpiedResource spied;
  Bytes during = 0;
  spied.log->on_map = [&] { during = spied->statistics().mapped_bytes; };
  void* block = spied->allocate(requestFor(kMiB));
  EXPECT_EQ(during, kMiB);
  spied->deallocate(block);
}

TEST(BudgetTest, ARefusedMappingIsRefunded) {
  SpiedResource spied;
  spied.log->refuse_maps = 100;
  EXPECT_EQ(spied->allocate(requestFor(kMiB)), nullptr);
  EXPECT_EQ(spied->allocate(100), nullptr);
  const Statistics stats = spied->statistics();
  EXPECT_EQ(stats.mapped_bytes, 0);
  EXPECT_EQ(stats.mapped_peak_bytes, 0);
  EXPECT_EQ(stats.allocations, 0);
  EXPECT_EQ(stats.budget_violations, 0);
  spied.log->refuse_maps = 0;
}

TEST(BudgetTest, ARefusalGivesTheCacheBackAndTriesAgain) {
  SpiedResource spied;
  spied->deallocate(spied->allocate(requestFor(4 * kMiB)));
  spied.log->refuse_maps = 1;
  void* block = spied->allocate(requestFor(kMiB));
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(spied.log->maps, 3);  // 4 MiB, 1 MiB refused, 1 MiB
  EXPECT_EQ(spied->statistics().mapped_bytes, kMiB);
  spied->deallocate(block);
}

TEST(BudgetTest, AnOverrunIsCountedAndPaidBackAtTheFree) {
  SpiedResource spied;
  spied->setBudget(3 * kMiB);  // overrun is allowed unless forbidden
  void* first = spied->allocate(requestFor(2 * kMiB));
  void* second = spied->allocate(requestFor(kMiB));
  spied->deallocate(second);
  // 2 live, 1 cached: 2 more would make 4 even without the cache, so it goes and the budget is
  // overrun.
  void* third = spied->allocate(requestFor(2 * kMiB));
  ASSERT_NE(third, nullptr);
  Statistics stats = spied->statistics();
  EXPECT_EQ(stats.mapped_bytes, 4 * kMiB);
  EXPECT_EQ(stats.budget_violations, 1);
  spied->deallocate(third);  // 4 > 3: to the system
  stats = spied->statistics();
  EXPECT_EQ(stats.mapped_bytes, 2 * kMiB);
  EXPECT_EQ(stats.cached_bytes, 0);
  spied->deallocate(first);  // 2 <= 3: cached
  EXPECT_EQ(spied->statistics().cached_bytes, 2 * kMiB);
}

TEST(BudgetTest, ASmallerBudgetTakesTheCacheFirstAndTheFreesLater) {
  SpiedResource spied;
  spied.limit(8 * kMiB);
  void* kept = spied->allocate(requestFor(3 * kMiB));
  void* other = spied->allocate(requestFor(2 * kMiB));
  void* cached = spied->allocate(requestFor(kMiB));
  spied->deallocate(cached);
  spied.limit(4 * kMiB);  // 6 mapped, 1 of it cached: 5 remain
  EXPECT_EQ(spied->statistics().mapped_bytes, 5 * kMiB);
  EXPECT_EQ(spied->allocate(requestFor(kMiB)), nullptr);
  spied->deallocate(other);  // 5 > 4: to the system
  EXPECT_EQ(spied->statistics().mapped_bytes, 3 * kMiB);
  spied->deallocate(kept);  // 3 <= 4: cached
  EXPECT_EQ(spied->statistics().cached_bytes, 3 * kMiB);
  spied.limit(0);
  EXPECT_EQ(spied->statistics().mapped_bytes, 0);
  EXPECT_EQ(spied->allocate(1), nullptr);
}

TEST(BudgetTest, AChunkTakesTheSmallestCachedBlockThatIsEnough) {
  SpiedResource spied;
  spied.limit(7 * kMiB);
  std::vector<void*> blocks;
  for (const Bytes size : {kMiB, 2 * kMiB, 4 * kMiB}) {
    blocks.push_back(spied->allocate(requestFor(size)));
  }
  for (void* block : blocks) spied->deallocate(block);
  void* small = spied->allocate(100);
  // Cut from the block of 1 MiB: nothing goes back, nothing is mapped.
  EXPECT_EQ(spied->statistics().cached_bytes, 7 * kMiB - kChunk);
  EXPECT_EQ(spied->statistics().mapped_bytes, 7 * kMiB);
  EXPECT_EQ(spied.log->maps, 3);
  spied->deallocate(small);
}

TEST(BudgetTest, AChunkShrinksToWhatIsLeft) {
  SpiedResource spied;
  spied.limit(kMiB + kPage);
  void* large = spied->allocate(requestFor(kMiB));
  std::vector<void*> blocks;
  // One page holds the chunk's header and 31 slots of 128: 64 + 31 x 128 = 4032, 64 are left.
  for (int i = 0; i < 31; ++i) blocks.push_back(spied->allocate(64));
  EXPECT_EQ(spied->statistics().mapped_bytes, kMiB + kPage);
  EXPECT_NE(blocks.back(), nullptr);
  EXPECT_EQ(spied->allocate(64), nullptr);
  for (void* block : blocks) spied->deallocate(block);
  spied->deallocate(large);
}

TEST(BudgetTest, TheRestOfAChunkServesSmallerClasses) {
  SpiedResource spied;
  std::vector<void*> blocks;
  // 262144 - 64 holds 7 slots of 32768 and a rest of 32704, which cannot hold an eighth.
  for (int i = 0; i < 8; ++i) blocks.push_back(spied->allocate(32704));
  EXPECT_EQ(spied.log->maps, 2);
  // Of the rest, 30720 became a slot: 30720 - 64 is its largest request.
  blocks.push_back(spied->allocate(30656));
  EXPECT_EQ(spied.log->maps, 2);
  EXPECT_LT(blocks.back(), static_cast<char*>(blocks.front()) + kChunk);
  EXPECT_GT(blocks.back(), blocks.front());
  for (void* block : blocks) spied->deallocate(block);
}

TEST(BudgetTest, WithoutABudgetMappedStaysNearTheLivePeak) {
  SpiedResource spied;
  spied->deallocate(spied->allocate(requestFor(512 * kMiB)));
  // The live peak becomes 600, its slack 100: 512 + 600 > 700, so the block of 512 grows.
  spied->deallocate(spied->allocate(requestFor(600 * kMiB)));
  EXPECT_EQ(spied.log->maps, 1);
  EXPECT_EQ(spied.log->gathers, 1);
  // 600 + 90 <= 700: both may stay.
  spied->deallocate(spied->allocate(requestFor(90 * kMiB)));
  EXPECT_EQ(spied.log->maps, 2);
  // 690 + 400 > 700: cut from the block of 600.
  spied->deallocate(spied->allocate(requestFor(400 * kMiB)));
  EXPECT_EQ(spied.log->maps, 2);
  EXPECT_EQ(spied.log->gathers, 1);
  EXPECT_EQ(spied->statistics().cached_bytes, 690 * kMiB);
}

// Thread A gives its cache of 3 MiB back; B wants 2 MiB while the unmapping is under way.
//
//   A: releaseCached ─ unmap .........
//   B:                  allocate ─ waits ─ map
TEST(BudgetTest, WhatAnotherThreadIsGivingBackIsWaitedFor) {
  SpiedResource spied;
  spied.limit(3 * kMiB);
  spied->deallocate(spied->allocate(requestFor(3 * kMiB)));
  std::atomic<bool> unmapping{false};
  spied.log->on_unmap = [&] {
    if (unmapping.exchange(true)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  std::thread thread([&] { spied->releaseCached(); });
  while (!unmapping) std::this_thread::yield();
  void* large = spied->allocate(requestFor(2 * kMiB));
  thread.join();
  EXPECT_NE(large, nullptr);
  spied->deallocate(large);
}

// Each thread holds at most one block of at most a quarter of the budget, so there is always
// enough, even while others resize, release and map.
TEST(BudgetTest, NobodyFailsWhileThereIsEnough) {
  for (const Source source : {Source::kHost, Source::kHeap}) {
    SpiedResource spied(source);
    spied.limit(4 * kMiB);
    std::atomic<int> failures{0};
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937_64 random(thread);
        for (int round = 0; round < 3000; ++round) {
          const Bytes pages = 9 + static_cast<Bytes>(random() % 248);  // 9 to 256 pages
          void* block = spied->allocate(requestFor(pages * kPage));
          if (block == nullptr) ++failures;
          spied->deallocate(block);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(failures, 0);
    EXPECT_LE(spied->statistics().mapped_peak_bytes, 4 * kMiB);
  }
}

}  // namespace
}  // namespace ebbtide::allocator::test
