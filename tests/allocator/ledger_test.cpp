// The ledger alone.
#include "ebbtide/allocator/ledger.hpp"

#include <gtest/gtest.h>

#include <atomic>
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

TEST(LedgerTest, TheReserveIsForItsScope) {
  Ledger ledger;
  ledger.setBudgetBytes(100);
  ledger.setReserveBytes(20);
  EXPECT_FALSE(ledger.couldFit(81));
  EXPECT_TRUE(ledger.debit(80));
  EXPECT_FALSE(ledger.debit(1));
  EXPECT_FALSE(ledger.isOverBudget());
  {
    const Ledger::ReserveScope scope;
    EXPECT_EQ(ledger.roomBytes(), 20);
    EXPECT_TRUE(ledger.debit(20));
    EXPECT_FALSE(ledger.debit(1));
    // Another thread is in no scope.
    std::thread([&] { EXPECT_EQ(ledger.roomBytes(), -20); }).join();
  }
  EXPECT_FALSE(ledger.isOverBudget());
  ledger.setReserveBytes(kUnlimited);
  EXPECT_EQ(ledger.roomBytes(), -100);
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
  ledger.setReserveBytes(kUnlimited);
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
