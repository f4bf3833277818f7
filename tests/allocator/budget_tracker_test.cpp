// The budget tracker alone.
#include "ebbtide/allocator/budget_tracker.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <random>
#include <thread>
#include <vector>

namespace ebbtide::allocator {
namespace {

TEST(BudgetTrackerTest, ExactlyTheBudgetFits) {
  BudgetTracker tracker;
  tracker.setBudgetBytes(100);
  EXPECT_TRUE(tracker.debit(60));
  EXPECT_FALSE(tracker.debit(41));
  EXPECT_EQ(tracker.mappedBytes(), 60);
  EXPECT_TRUE(tracker.debit(40));
  EXPECT_EQ(tracker.roomBytes(), 0);
  EXPECT_FALSE(tracker.debit(1));
  tracker.credit(10);
  EXPECT_EQ(tracker.roomBytes(), 10);
  EXPECT_EQ(tracker.mappedPeakBytes(), 100);
  EXPECT_EQ(tracker.overruns(), 0);
}

TEST(BudgetTrackerTest, TheMarginIsOthers) {
  BudgetTracker tracker;
  tracker.setMarginBytes(30);
  EXPECT_EQ(tracker.roomBytes(), kUnlimited);  // no budget, no margin of it
  tracker.setBudgetBytes(100);
  EXPECT_EQ(tracker.roomBytes(), 70);
  EXPECT_FALSE(tracker.debit(71));
  tracker.setMarginBytes(120);  // more than there is: nothing fits
  EXPECT_EQ(tracker.roomBytes(), 0);
  EXPECT_FALSE(tracker.debit(1));
  EXPECT_TRUE(tracker.debit(0));
  tracker.setMarginBytes(-5);
  EXPECT_EQ(tracker.marginBytes(), 0);
}

TEST(BudgetTrackerTest, ALowerBudgetMakesTheRoomNegative) {
  BudgetTracker tracker;
  EXPECT_TRUE(tracker.debit(100));
  EXPECT_FALSE(tracker.isOverBudget());
  tracker.setBudgetBytes(30);
  EXPECT_EQ(tracker.roomBytes(), -70);
  EXPECT_TRUE(tracker.isOverBudget());
  EXPECT_FALSE(tracker.debit(1));
  EXPECT_TRUE(tracker.debit(0));
  tracker.credit(71);
  EXPECT_TRUE(tracker.debit(1));
}

TEST(BudgetTrackerTest, AnOverrunPassesAndIsCounted) {
  BudgetTracker tracker;
  tracker.setBudgetBytes(100);
  EXPECT_FALSE(BudgetTracker::allowsOverrunHere());
  {
    const BudgetTracker::OverrunScope scope;
    EXPECT_TRUE(BudgetTracker::allowsOverrunHere());
    EXPECT_TRUE(tracker.debit(100));
    EXPECT_EQ(tracker.overruns(), 0);  // it was within the budget
    EXPECT_TRUE(tracker.debit(1));
    EXPECT_EQ(tracker.overruns(), 1);
  }
  EXPECT_TRUE(tracker.isOverBudget());
  EXPECT_FALSE(tracker.debit(1));
}

TEST(BudgetTrackerTest, NoSumOverflows) {
  BudgetTracker tracker;
  EXPECT_TRUE(tracker.debit(Bytes{1} << 60));
  tracker.setBudgetBytes(0);
  tracker.setMarginBytes(kUnlimited);
  EXPECT_EQ(tracker.roomBytes(), -(Bytes{1} << 60));
  EXPECT_FALSE(tracker.debit(Bytes{1} << 60));
}

TEST(BudgetTrackerTest, PeaksFollowAndAreReset) {
  BudgetTracker tracker;
  BudgetTracker::LiveCount live(tracker);
  live.noteAllocated(50);
  live.noteFreed(20);
  EXPECT_EQ(tracker.liveBytes(), 30);
  EXPECT_EQ(tracker.livePeakBytes(), 50);
  tracker.resetPeaks();
  EXPECT_EQ(tracker.livePeakBytes(), 30);
  EXPECT_EQ(tracker.lifetimePeakBytes(), 50);
  live.noteAllocated(100);
  EXPECT_EQ(tracker.lifetimePeakBytes(), 130);
}

// 60 mapped beside 10 are 70; 20 beside 45 are 65, though 60 + 45 would be more.
TEST(BudgetTrackerTest, WhatIsUsedIsOfOneMoment) {
  BudgetTracker tracker;
  tracker.setMarginBytes(10);
  EXPECT_TRUE(tracker.debit(60));
  tracker.credit(40);
  tracker.setMarginBytes(45);
  EXPECT_EQ(tracker.usedPeakBytes(), 70);
  tracker.resetPeaks();
  EXPECT_EQ(tracker.usedPeakBytes(), 65);
  tracker.setMarginBytes(50);
  EXPECT_EQ(tracker.usedPeakBytes(), 70);
}

// Three holders by one thread, at random, among them one with blocks of MiB. Each may rise by a
// thousandth of the peak without a look, and then another one frees.
TEST(BudgetTrackerTest, ThePeakOfSeveralHoldersIsMissedByLittle) {
  std::mt19937_64 random(7);
  BudgetTracker tracker;
  constexpr std::size_t kHolders = 3;
  BudgetTracker::LiveCount counts[kHolders]{BudgetTracker::LiveCount(tracker),
                                            BudgetTracker::LiveCount(tracker),
                                            BudgetTracker::LiveCount(tracker)};
  std::vector<Bytes> blocks[kHolders];
  Bytes live = 0, peak = 0, raises = 0;
  for (int i = 0; i < 200'000; ++i) {
    const std::size_t who = random() % kHolders;
    std::vector<Bytes>& own = blocks[who];
    if (own.size() > random() % (i / 10'000 % 2 == 0 ? 400 : 100)) {
      counts[who].noteFreed(own.back());
      live -= own.back();
      own.pop_back();
    } else {
      own.push_back(1 + static_cast<Bytes>(random() % (who == 0 ? 4096 : 4096 << 10)));
      counts[who].noteAllocated(own.back());
      live += own.back();
      if (live > peak) ++raises;
      peak = std::max(peak, live);
    }
    ASSERT_EQ(tracker.liveBytes(), live);
    ASSERT_LE(tracker.livePeakBytes(), peak);
    ASSERT_GE(tracker.livePeakBytes(), peak - static_cast<Bytes>(kHolders) * (peak / 1024 + 1));
    if (i % 50'000 == 49'999) {
      tracker.resetPeaks();
      peak = live;
    }
  }
  EXPECT_GT(raises, 100);
}

// Three threads go up and down at once, to at most 300 MiB. Then one takes all that their shares
// left, and more: its own count and 10 MiB of each other one, a little more in each round.
TEST(BudgetTrackerTest, WhatOneThreadTakesOfTheOthersSharesIsSeen) {
  constexpr int kThreads = 3;
  constexpr Bytes kBlock = Bytes{1} << 20;
  BudgetTracker tracker;
  std::barrier meet(kThreads);
  std::atomic<int> missed{0}, invented{0};
  const auto work = [&](int thread) {
    BudgetTracker::LiveCount count(tracker);
    const auto change = [&](int from, int to) {
      for (; from < to; ++from) count.noteAllocated(kBlock);
      for (; from > to; --from) count.noteFreed(kBlock);
    };
    for (int round = 0; round < 60; ++round) {
      for (int i = 0; i < 10; ++i) {
        change(0, 100);
        change(100, 0);
      }
      change(0, 10);
      meet.arrive_and_wait();
      if (round % kThreads == thread) {
        change(10, 410 + round);
        const Bytes live = (10 + 10 + 410 + round) * kBlock;
        if (tracker.livePeakBytes() < live - kBlock / 4) ++missed;  // 256 KiB may be unseen
        if (tracker.livePeakBytes() > live) ++invented;
        change(410 + round, 10);
        if (round % 4 == 0) tracker.resetPeaks();
      }
      meet.arrive_and_wait();
      change(10, 0);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(missed, 0);
  EXPECT_EQ(invented, 0);
  EXPECT_EQ(tracker.liveBytes(), 0);
  EXPECT_EQ(tracker.lifetimePeakBytes(), (10 + 10 + 410 + 59) * kBlock);
}

TEST(BudgetTrackerTest, AWatchSeesFreesWhileItLives) {
  BudgetTracker tracker;
  BudgetTracker::LiveCount live(tracker);
  live.noteFreed(1);
  const BudgetTracker::FreeWatch watch(tracker);
  EXPECT_FALSE(watch.sawAny());
  std::thread([&] { live.noteFreed(1); }).join();
  EXPECT_TRUE(watch.sawAny());
}

// 8 threads want 10 of 45 each time: never more than 4 hold one.
TEST(BudgetTrackerTest, NoTwoThreadsPassOnTheSameBytes) {
  BudgetTracker tracker;
  tracker.setBudgetBytes(45);
  std::atomic<int> inside{0}, too_many{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5000; ++round) {
        if (!tracker.debit(10)) continue;
        if (++inside > 4) ++too_many;
        --inside;
        tracker.credit(10);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(too_many, 0);
  EXPECT_EQ(tracker.mappedBytes(), 0);
  EXPECT_LE(tracker.mappedPeakBytes(), 45);
}

// Whoever sets last, the limit is that of both values.
TEST(BudgetTrackerTest, BudgetAndMarginMayBeSetAtOnce) {
  for (int round = 0; round < 500; ++round) {
    BudgetTracker tracker;
    tracker.setBudgetBytes(1000);
    std::thread other([&] { tracker.setBudgetBytes(500); });
    tracker.setMarginBytes(100);
    other.join();
    ASSERT_EQ(tracker.roomBytes(), 400);
  }
}

}  // namespace
}  // namespace ebbtide::allocator
