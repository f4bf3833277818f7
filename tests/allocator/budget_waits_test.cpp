// The budget: what is waited for, the device and other streams, before more is mapped or refused.
#include <gtest/gtest.h>

#include <chrono>

#include "budget_fixture.hpp"

namespace ebbtide::allocator::test {
namespace {

TEST_F(BudgetTest, AnotherStreamsFreePagesAreTakenAfterAWait) {
  stack_.limit(4 * kMiB);
  stack_->deallocate(allocate(3 * kMiB, kOne));
  const int waits = stack_.events().synchronizes;
  void* block = allocate(3 * kMiB, kTwo);
  EXPECT_NE(block, nullptr);
  EXPECT_GT(stack_.events().synchronizes, waits);
  EXPECT_LE(stats().mapped_bytes, 4 * kMiB);
  stack_->deallocate(block);
}

// The free happens when the wait is over but nobody knows yet: its work is later than the wait.
TEST_F(BudgetTest, WhatIsFreedDuringTheWaitIsNotUnmapped) {
  stack_.limit(4 * kMiB);
  stack_->deallocate(allocate(kMiB, kOne));
  void* late = allocate(kMiB, kOne);
  void* other = allocate(kMiB, kOne);
  stack_->deallocate(other);
  stack_.events().on_synchronized = [&] { stack_->deallocate(std::exchange(late, nullptr)); };
  int bad = 0;
  void* const late_begin = late;
  stack_.spy().on_unmap = [&](void* begin, Bytes bytes) {
    auto* at = static_cast<char*>(late_begin);
    bad += begin < at + kMiB && at < static_cast<char*>(begin) + bytes &&
           stack_.events().synchronizes < 2;
  };
  void* block = allocate(3 * kMiB, kTwo);
  EXPECT_EQ(bad, 0);
  stack_.events().on_synchronized = nullptr;
  stack_->deallocate(block);
}

TEST_F(BudgetTest, ADeviceThatDoesNotAnswerIsWaitedForOnlySoLong) {
  Stack stack({.longest_wait = std::chrono::milliseconds{1500}});
  stack.limit(4 * kMiB);
  stack->deallocate(stack->allocate(size(3 * kMiB), kOne));
  stack.events().stuck = true;
  testing::internal::CaptureStderr();
  EXPECT_EQ(stack->allocate(size(3 * kMiB), kTwo), nullptr);
  EXPECT_EQ(stack->allocate(size(3 * kMiB), kTwo), nullptr);
  // Once, however often it is asked in vain.
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "ebbtide: the device did not finish its work within 1.5 s, or a graph is being captured: "
      "memory that it may still use is not reused\n");
  EXPECT_EQ(stack.events().last_wait.load(), std::chrono::milliseconds{1500});
  EXPECT_EQ(stack.budgetTracker().mappedBytes(), 3 * kMiB);
  EXPECT_EQ(stack.memory().statistics().cached_bytes, 3 * kMiB);  // nothing was unmapped
  void* same_stream = stack->allocate(size(3 * kMiB), kOne);
  EXPECT_NE(same_stream, nullptr);  // in order, so safe
  stack->deallocate(same_stream);
  stack.events().stuck = false;
  void* block = stack->allocate(size(3 * kMiB), kTwo);
  EXPECT_NE(block, nullptr);
  stack->deallocate(block);
  stack.expectSound();
}

TEST_F(BudgetTest, AfterAWaitInVainTheNextOnesAreShorterUntilOneIsNot) {
  constexpr std::chrono::milliseconds kLongest{32};
  Stack stack({.longest_wait = kLongest});
  stack->deallocate(stack->allocate(size(kMiB), kOne));
  stack.events().stuck = stack.events().stuck_takes_time = true;
  testing::internal::CaptureStderr();
  EXPECT_FALSE(stack.memory().pool().waitForDevice());
  EXPECT_EQ(stack.events().last_wait.load(), kLongest);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(stack.memory().pool().waitForDevice());
    EXPECT_EQ(stack.events().last_wait.load(), kLongest / 16);
  }
  stack.events().stuck = false;
  EXPECT_TRUE(stack.memory().pool().waitForDevice());
  EXPECT_EQ(stack.events().last_wait.load(), kLongest / 16);
  EXPECT_TRUE(stack.memory().pool().waitForDevice());
  EXPECT_EQ(stack.events().last_wait.load(), kLongest);
  testing::internal::GetCapturedStderr();
}

TEST_F(BudgetTest, AnArenaKeepsItsPagesWhenTheDeviceDoesNotAnswer) {
  auto sequence = sequenceOf({kMiB});
  stack_.placed().beginStep(Stream::kDefault, sequence, /*this_thread_only=*/false);
  stack_->deallocate(allocate(kMiB));
  stack_.events().stuck = true;
  testing::internal::CaptureStderr();
  stack_.memory().releaseCached();
  EXPECT_NE(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(stats().cached_bytes, kMiB);
  stack_.placed().beginStep(Stream::kDefault, sequence, /*this_thread_only=*/false);
  void* block = allocate(kMiB);
  EXPECT_TRUE(stack_.placed().owns(block));
  stack_->deallocate(block);
  stack_.events().stuck = false;
}

TEST_F(BudgetTest, ABlockThatAwaitsAnEventIsWaitedForBeforeARefusal) {
  stack_.limit(4 * kMiB);
  void* shared = allocate(3 * kMiB, kOne);
  stack_->recordStream(shared, kTwo);
  stack_->deallocate(shared);
  void* block = allocate(3 * kMiB, kOne);
  EXPECT_EQ(block, shared);
  stack_->deallocate(block);
}

}  // namespace
}  // namespace ebbtide::allocator::test
