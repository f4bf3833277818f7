// The ledger alone.
#include "ebbtide/allocator/ledger.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <random>
#include <thread>
#include <vector>

namespace ebbtide::allocator {
namespace {

TEST(LedgerTest, ExactlyTheBudgetFits) {
  Ledger ledger;
  ledger.setBudgetBytes(100);
  EXPECT_TRUE(ledger.debit(60));
  EXPECT_FALSE(ledger.debit(41));
  EXPECT_EQ(ledger.mappedBytes(), 60);
  EXPECT_TRUE(ledger.debit(40));
  EXPECT_EQ(ledger.roomBytes(), 0);
  EXPECT_FALSE(ledger.debit(1));
  ledger.credit(10);
  EXPECT_EQ(ledger.roomBytes(), 10);
  EXPECT_EQ(ledger.mappedPeakBytes(), 100);
  EXPECT_EQ(ledger.overruns(), 0);
}

TEST(LedgerTest, TheMarginIsOthers) {
  Ledger ledger;
  ledger.setMarginBytes(30);
  EXPECT_EQ(ledger.roomBytes(), kUnlimited);  // no budget, no margin of it
  ledger.setBudgetBytes(100);
  EXPECT_EQ(ledger.roomBytes(), 70);
  EXPECT_FALSE(ledger.debit(71));
  ledger.setMarginBytes(120);  // more than there is: nothing fits
  EXPECT_EQ(ledger.roomBytes(), 0);
  EXPECT_FALSE(ledger.debit(1));
  EXPECT_TRUE(ledger.debit(0));
  ledger.setMarginBytes(-5);
  EXPECT_EQ(ledger.marginBytes(), 0);
}

TEST(LedgerTest, ALowerBudgetMakesTheRoomNegative) {
  Ledger ledger;
  EXPECT_TRUE(ledger.debit(100));
  EXPECT_FALSE(ledger.isOverBudget());
  ledger.setBudgetBytes(30);
  EXPECT_EQ(ledger.roomBytes(), -70);
  EXPECT_TRUE(ledger.isOverBudget());
  EXPECT_FALSE(ledger.debit(1));
  EXPECT_TRUE(ledger.debit(0));
  ledger.credit(71);
  EXPECT_TRUE(ledger.debit(1));
}

TEST(LedgerTest, AnOverrunPassesAndIsCounted) {
  Ledger ledger;
  ledger.setBudgetBytes(100);
  EXPECT_FALSE(Ledger::allowsOverrunHere());
  {
    const Ledger::OverrunScope scope;
    EXPECT_TRUE(Ledger::allowsOverrunHere());
    EXPECT_TRUE(ledger.debit(100));
    EXPECT_EQ(ledger.overruns(), 0);  // it was within the budget
    EXPECT_TRUE(ledger.debit(1));
    EXPECT_EQ(ledger.overruns(), 1);
  }
  EXPECT_TRUE(ledger.isOverBudget());
  EXPECT_FALSE(ledger.debit(1));
}

TEST(LedgerTest, NoSumOverflows) {
  Ledger ledger;
  EXPECT_TRUE(ledger.debit(Bytes{1} << 60));
  ledger.setBudgetBytes(0);
  ledger.setMarginBytes(kUnlimited);
  EXPECT_EQ(ledger.roomBytes(), -(Bytes{1} << 60));
  EXPECT_FALSE(ledger.debit(Bytes{1} << 60));
}

TEST(LedgerTest, PeaksFollowAndAreReset) {
  Ledger ledger;
  Ledger::LiveCount live(ledger);
  live.noteAllocated(50);
  live.noteFreed(20);
  EXPECT_EQ(ledger.liveBytes(), 30);
  EXPECT_EQ(ledger.livePeakBytes(), 50);
  ledger.resetPeaks();
  EXPECT_EQ(ledger.livePeakBytes(), 30);
  EXPECT_EQ(ledger.lifetimePeakBytes(), 50);
  live.noteAllocated(100);
  EXPECT_EQ(ledger.lifetimePeakBytes(), 130);
}

// 60 mapped beside 10 are 70; 20 beside 45 are 65, though 60 + 45 would be more.
TEST(LedgerTest, WhatIsUsedIsOfOneMoment) {
  Ledger ledger;
  ledger.setMarginBytes(10);
  EXPECT_TRUE(ledger.debit(60));
  ledger.credit(40);
  ledger.setMarginBytes(45);
  EXPECT_EQ(ledger.usedPeakBytes(), 70);
  ledger.resetPeaks();
  EXPECT_EQ(ledger.usedPeakBytes(), 65);
  ledger.setMarginBytes(50);
  EXPECT_EQ(ledger.usedPeakBytes(), 70);
}

// Three holders by one thread, at random, among them one with blocks of MiB. Each may rise by a
// thousandth of the peak without a look, and then another one frees.
TEST(LedgerTest, ThePeakOfSeveralHoldersIsMissedByLittle) {
  std::mt19937_64 random(7);
  Ledger ledger;
  constexpr std::size_t kHolders = 3;
  Ledger::LiveCount counts[kHolders]{Ledger::LiveCount(ledger), Ledger::LiveCount(ledger),
                                     Ledger::LiveCount(ledger)};
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
    ASSERT_EQ(ledger.liveBytes(), live);
    ASSERT_LE(ledger.livePeakBytes(), peak);
    ASSERT_GE(ledger.livePeakBytes(), peak - static_cast<Bytes>(kHolders) * (peak / 1024 + 1));
    if (i % 50'000 == 49'999) {
      ledger.resetPeaks();
      peak = live;
    }
  }
  EXPECT_GT(raises, 100);
}

// Three threads go up and down at once, to at most 300 MiB. Then one takes all that their shares
// left, and more: its own count and 10 MiB of each other one, a little more in each round.
TEST(LedgerTest, WhatOneThreadTakesOfTheOthersSharesIsSeen) {
  constexpr int kThreads = 3;
  constexpr Bytes kBlock = Bytes{1} << 20;
  Ledger ledger;
  std::barrier meet(kThreads);
  std::atomic<int> missed{0}, invented{0};
  const auto work = [&](int thread) {
    Ledger::LiveCount count(ledger);
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
        if (ledger.livePeakBytes() < live - kBlock / 4) ++missed;  // 256 KiB may be unseen
        if (ledger.livePeakBytes() > live) ++invented;
        change(410 + round, 10);
        if (round % 4 == 0) ledger.resetPeaks();
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
  EXPECT_EQ(ledger.liveBytes(), 0);
  EXPECT_EQ(ledger.lifetimePeakBytes(), (10 + 10 + 410 + 59) * kBlock);
}

TEST(LedgerTest, AWatchSeesFreesWhileItLives) {
  Ledger ledger;
  Ledger::LiveCount live(ledger);
  live.noteFreed(1);
  const Ledger::FreeWatch watch(ledger);
  EXPECT_FALSE(watch.sawAny());
  std::thread([&] { live.noteFreed(1); }).join();
  EXPECT_TRUE(watch.sawAny());
}

// 8 threads want 10 of 45 each time: never more than 4 hold one.
TEST(LedgerTest, NoTwoThreadsPassOnTheSameBytes) {
  Ledger ledger;
  ledger.setBudgetBytes(45);
  std::atomic<int> inside{0}, too_many{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5000; ++round) {
        if (!ledger.debit(10)) continue;
        if (++inside > 4) ++too_many;
        --inside;
        ledger.credit(10);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(too_many, 0);
  EXPECT_EQ(ledger.mappedBytes(), 0);
  EXPECT_LE(ledger.mappedPeakBytes(), 45);
}

// Whoever sets last, the limit is that of both values.
TEST(LedgerTest, BudgetAndMarginMayBeSetAtOnce) {
  for (int round = 0; round < 500; ++round) {
    Ledger ledger;
    ledger.setBudgetBytes(1000);
    std::thread other([&] { ledger.setBudgetBytes(500); });
    ledger.setMarginBytes(100);
    other.join();
    ASSERT_EQ(ledger.roomBytes(), 400);
  }
}

}  // namespace
}  // namespace ebbtide::allocator
