// The reclaim contract: no lock held, bounded, believed by its effect, never re-entered.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "stack.hpp"

namespace ebbtide::allocator::test {
namespace {

class ScriptedReclaimer final : public Reclaimer {
 public:
  explicit ScriptedReclaimer(std::function<Bytes(const ReclaimRequest&)> script)
      : script_(std::move(script)) {}
  Bytes reclaim(const ReclaimRequest& request) noexcept override {
    ++calls;
    last_need_bytes = request.need_bytes;
    last_attempt = request.attempt;
    last_stream = request.stream;
    return script_(request);
  }
  std::atomic<int> calls{0}, last_attempt{-1};
  std::atomic<Bytes> last_need_bytes{0};
  std::atomic<Stream> last_stream{Stream::kDefault};

 private:
  std::function<Bytes(const ReclaimRequest&)> script_;
};

// Four live blocks of 1 MiB fill the budget of 4 MiB.
class ReclaimTest : public testing::Test {
 protected:
  ReclaimTest() {
    stack_.limit(4 * kMiB);
    for (int i = 0; i < 4; ++i) held_.push_back(allocate(kMiB));
  }
  ~ReclaimTest() override {
    stack_.memory().setReclaimer(nullptr);
    while (!held_.empty()) freeOne();
    stack_.expectSound();
    EXPECT_EQ(stack_.budgetTracker().liveBytes(), 0);
  }

  void* allocate(Bytes bytes, Stream stream = Stream::kDefault) {
    return stack_->allocate(size(bytes), stream);
  }
  Bytes freeOne() {
    if (held_.empty()) return 0;
    stack_->deallocate(held_.back());
    held_.pop_back();
    return kMiB;
  }

  Stack stack_;
  std::vector<void*> held_;
};

TEST_F(ReclaimTest, IsAskedForTheShortfallUntilItIsEnough) {
  ScriptedReclaimer reclaimer([&](const ReclaimRequest&) { return freeOne(); });
  stack_.memory().setReclaimer(&reclaimer);
  void* block = allocate(2 * kMiB, Stream{3});  // two calls free the two blocks it takes
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(reclaimer.calls, 2);
  EXPECT_EQ(reclaimer.last_attempt, 1);
  EXPECT_EQ(reclaimer.last_stream.load(), Stream{3});
  EXPECT_EQ(stack_.memory().statistics().reclaims, 2);
  EXPECT_EQ(stack_.budgetTracker().mappedBytes(), 4 * kMiB);
  stack_->deallocate(block);
}

// Room and cache count: 1 MiB is cached, so 32 KiB are short.
TEST_F(ReclaimTest, CountsRoomAndCacheBeforeItAsks) {
  freeOne();
  ScriptedReclaimer reclaimer([&](const ReclaimRequest&) { return freeOne(); });
  stack_.memory().setReclaimer(&reclaimer);
  void* block = allocate(kMiB + 8 * kPage);
  EXPECT_EQ(reclaimer.calls, 1);
  EXPECT_EQ(reclaimer.last_need_bytes, 8 * kPage);
  stack_->deallocate(block);
}

TEST_F(ReclaimTest, ALiarIsAskedOnce) {
  ScriptedReclaimer reclaimer(
      [](const ReclaimRequest& request) { return 10 * request.need_bytes; });
  stack_.memory().setReclaimer(&reclaimer);
  EXPECT_EQ(allocate(kMiB), nullptr);
  EXPECT_EQ(reclaimer.calls, 1);
}

TEST_F(ReclaimTest, AModestOneIsBelievedByItsEffect) {
  ScriptedReclaimer reclaimer([&](const ReclaimRequest&) { return freeOne() * 0; });
  stack_.memory().setReclaimer(&reclaimer);
  void* block = allocate(3 * kMiB);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(reclaimer.calls, 3);
  stack_->deallocate(block);
}

TEST_F(ReclaimTest, EightCallsAreEnoughForAnyone) {
  while (!held_.empty()) freeOne();
  for (int i = 0; i < 64; ++i) held_.push_back(allocate(64 * kKiB));
  ScriptedReclaimer reclaimer([&](const ReclaimRequest&) { return freeOne(); });
  stack_.memory().setReclaimer(&reclaimer);
  // 16 blocks of 64 KiB would be needed.
  EXPECT_EQ(allocate(kMiB), nullptr);
  EXPECT_EQ(reclaimer.calls, 8);
}

// Blocks of 32 KiB lie in chunks of two, and only every other one can go: it frees no page. 1 MiB
// is short at each call.
TEST_F(ReclaimTest, EachCallIsAskedForTwiceAsMuch) {
  std::vector<Bytes> asked;
  ScriptedReclaimer reclaimer([&](const ReclaimRequest& request) {
    asked.push_back(request.need_bytes);
    return freeOne();
  });
  while (!held_.empty()) freeOne();
  std::vector<void*> stay;
  while (void* block = allocate(32 * kKiB)) {
    (held_.size() <= stay.size() ? held_ : stay).push_back(block);
  }
  stack_.memory().setReclaimer(&reclaimer);
  EXPECT_EQ(allocate(kMiB), nullptr);
  ASSERT_EQ(asked.size(), 8U);
  for (int call = 0; call < 8; ++call) EXPECT_EQ(asked[call], kMiB << call) << call;
  for (void* block : stay) stack_->deallocate(block);
}

TEST_F(ReclaimTest, WhatNeverFitsAsksNobodyUnlessAnOverrunIsAllowed) {
  ScriptedReclaimer reclaimer([&](const ReclaimRequest&) { return freeOne(); });
  stack_.memory().setReclaimer(&reclaimer);
  EXPECT_EQ(allocate(4 * kMiB + kPage), nullptr);
  for (const std::size_t bytes : {std::size_t{1} << 63, SIZE_MAX, std::size_t{0}}) {
    EXPECT_EQ(stack_->allocate(bytes, Stream::kDefault), nullptr);
  }
  EXPECT_EQ(reclaimer.calls, 0);
  stack_.spy().ceiling_bytes = 5 * kMiB;
  stack_.memory().limitOverrun(kUnlimited);
  EXPECT_EQ(stack_->allocate(SIZE_MAX, Stream::kDefault), nullptr);
  EXPECT_EQ(reclaimer.calls, 0);
  void* block = allocate(4 * kMiB + kPage);  // as little over as can be: all others go first
  EXPECT_NE(block, nullptr);
  EXPECT_TRUE(held_.empty());
  EXPECT_EQ(stack_.budgetTracker().mappedBytes(), 4 * kMiB + kPage);
  EXPECT_EQ(stack_.memory().statistics().budget_violations, 1);
  stack_->deallocate(block);
}

TEST_F(ReclaimTest, WithoutProgressTheOverrunPolicyDecides) {
  stack_.spy().ceiling_bytes = 5 * kMiB;
  stack_.memory().limitOverrun(kUnlimited);
  ScriptedReclaimer reclaimer([](const ReclaimRequest&) { return 0; });
  stack_.memory().setReclaimer(&reclaimer);
  void* block = allocate(kMiB);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(reclaimer.calls, 1);
  EXPECT_EQ(stack_.memory().statistics().budget_violations, 1);
  EXPECT_EQ(stack_.budgetTracker().mappedBytes(), 5 * kMiB);
  stack_->deallocate(block);
}

TEST_F(ReclaimTest, WhoCanFreeMoreAsksForNoOverrun) {
  stack_.spy().ceiling_bytes = 5 * kMiB;
  stack_.memory().limitOverrun(kUnlimited);
  ScriptedReclaimer reclaimer([](const ReclaimRequest&) { return 0; });
  stack_.memory().setReclaimer(&reclaimer);
  {
    const ReclaimingResource::WithinBudget within;
    EXPECT_EQ(allocate(kMiB), nullptr);
  }
  EXPECT_EQ(reclaimer.calls, 1);
  EXPECT_EQ(stack_.memory().statistics().budget_violations, 0);
  void* block = allocate(kMiB);
  EXPECT_NE(block, nullptr);
  stack_->deallocate(block);
}

TEST_F(ReclaimTest, ANestedAllocationUsesWhatWasFreedAndDoesNotReenter) {
  void* staging = nullptr;
  bool refused = false;
  ScriptedReclaimer reclaimer([&](const ReclaimRequest&) {
    refused = allocate(256 * kKiB) == nullptr;  // nothing is free yet
    freeOne();
    freeOne();
    staging = allocate(256 * kKiB);
    return 2 * kMiB - 256 * kKiB;
  });
  stack_.memory().setReclaimer(&reclaimer);
  void* block = allocate(kMiB);
  EXPECT_NE(block, nullptr);
  EXPECT_NE(staging, nullptr);
  EXPECT_TRUE(refused);
  EXPECT_EQ(reclaimer.calls, 1);
  stack_->deallocate(staging);
  stack_->deallocate(block);
}

TEST_F(ReclaimTest, ANestedAllocationMayOverrun) {
  stack_.spy().ceiling_bytes = kUnlimited;
  stack_.memory().limitOverrun(kUnlimited);
  ScriptedReclaimer reclaimer([&](const ReclaimRequest&) {
    void* staging = allocate(256 * kKiB);
    EXPECT_NE(staging, nullptr);
    stack_->deallocate(staging);
    return freeOne();
  });
  stack_.memory().setReclaimer(&reclaimer);
  void* block = allocate(kMiB);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(reclaimer.calls, 1);
  EXPECT_EQ(stack_.memory().statistics().budget_violations, 1);  // the nested one only
  stack_->deallocate(block);
}

TEST_F(ReclaimTest, ASmallRequestTakesAFreedSlot) {
  freeOne();
  std::vector<void*> small;
  while (void* block = allocate(1000)) small.push_back(block);
  ScriptedReclaimer reclaimer([&](const ReclaimRequest&) {
    stack_->deallocate(small.back());  // frees no page
    small.pop_back();
    return 0;
  });
  stack_.memory().setReclaimer(&reclaimer);
  void* block = allocate(1000);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(reclaimer.calls, 1);
  stack_->deallocate(block);
  for (void* each : small) stack_->deallocate(each);
}

TEST_F(ReclaimTest, IsAskedWhenTheSystemRefuses) {
  stack_.memory().setBudget(kUnlimited);
  stack_.spy().ceiling_bytes = kUnlimited;
  stack_.spy().capacity_bytes = stack_.budgetTracker().mappedBytes();
  ScriptedReclaimer reclaimer([&](const ReclaimRequest&) { return freeOne(); });
  stack_.memory().setReclaimer(&reclaimer);
  void* block = allocate(2 * kMiB);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(reclaimer.calls, 2);
  stack_->deallocate(block);
}

// A block that the reclaimer frees may be shared: the wait for its stream comes before a refusal.
TEST_F(ReclaimTest, WhatItFreesMayAwaitAnotherStream) {
  stack_->recordStream(held_.back(), Stream{5});
  ScriptedReclaimer reclaimer([&](const ReclaimRequest&) { return freeOne(); });
  stack_.memory().setReclaimer(&reclaimer);
  void* block = allocate(kMiB);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(reclaimer.calls, 1);
  stack_->deallocate(block);
}

// Thread A reclaims slowly; B comes meanwhile, waits, and finds what A's call freed.
//
//   A: allocate ─ reclaim ......... frees 2 ─ block
//   B:            allocate ─ waits ────────── block
TEST_F(ReclaimTest, ASecondThreadWaitsForTheFirstReclaim) {
  std::atomic<bool> entered{false};
  std::atomic<bool> second_started{false};
  ScriptedReclaimer reclaimer([&](const ReclaimRequest&) {
    entered = true;
    while (!second_started) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return freeOne() + freeOne();
  });
  stack_.memory().setReclaimer(&reclaimer);
  void* first = nullptr;
  std::thread thread([&] { first = allocate(kMiB); });
  while (!entered) std::this_thread::yield();
  second_started = true;
  void* second = allocate(kMiB);
  thread.join();
  EXPECT_NE(first, nullptr);
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(reclaimer.calls, 1);
  stack_->deallocate(first);
  stack_->deallocate(second);
}

TEST_F(ReclaimTest, ReplacingItWaitsUntilItIsDone) {
  std::atomic<bool> entered{false};
  std::atomic<bool> left{false};
  ScriptedReclaimer reclaimer([&](const ReclaimRequest&) {
    entered = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    left = true;
    return 0;
  });
  stack_.memory().setReclaimer(&reclaimer);
  std::thread thread([&] { EXPECT_EQ(allocate(kMiB), nullptr); });
  while (!entered) std::this_thread::yield();
  stack_.memory().setReclaimer(nullptr);
  EXPECT_TRUE(left);
  thread.join();
}

TEST_F(ReclaimTest, ItMayRemoveItself) {
  ScriptedReclaimer reclaimer([&](const ReclaimRequest&) {
    stack_.memory().setReclaimer(nullptr);  // does not wait for itself
    return freeOne();
  });
  stack_.memory().setReclaimer(&reclaimer);
  void* block = allocate(2 * kMiB);
  EXPECT_EQ(block, nullptr);
  EXPECT_EQ(reclaimer.calls, 1);
}

// Eight threads want more than there is. The reclaimer takes from a pool that they feed.
TEST_F(ReclaimTest, ManyThreadsShareOneReclaimer) {
  std::mutex pool_mutex;
  std::vector<void*> pool = std::move(held_);
  held_.clear();
  std::atomic<int> inside{0};
  std::atomic<int> overlapping{0};
  ScriptedReclaimer reclaimer([&](const ReclaimRequest&) {
    if (++inside > 1) ++overlapping;
    void* block = nullptr;
    {
      const std::lock_guard lock(pool_mutex);
      if (!pool.empty()) {
        block = pool.back();
        pool.pop_back();
      }
    }
    stack_->deallocate(block);
    --inside;
    return block == nullptr ? 0 : kMiB;
  });
  stack_.memory().setReclaimer(&reclaimer);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        if (void* block = allocate(kMiB)) {
          const std::lock_guard lock(pool_mutex);
          pool.push_back(block);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(overlapping, 0);
  EXPECT_GT(stack_.memory().statistics().reclaims, 300);
  EXPECT_EQ(pool.size(), 4U);  // what the budget holds; every further block replaced one
  held_ = std::move(pool);
}

// Sums what it is told, from several threads.
class SummingObserver final : public Observer {
 public:
  void onAllocate(const void*, Bytes block_bytes) noexcept override {
    live_bytes += block_bytes;
    ++events;
  }
  void onFree(const void*, Bytes block_bytes) noexcept override {
    live_bytes -= block_bytes;
    ++events;
  }
  std::atomic<Bytes> live_bytes{0};
  std::atomic<int> events{0};
};

class CountingWatcher final : public BlockWatcher {
 public:
  void onAllocated(const void* block, std::size_t request_bytes) noexcept override {
    last = block;
    asked_bytes += request_bytes;
  }
  void onFreed(const void* block) noexcept override { freed += block == last ? 1 : 0; }

  const void* last = nullptr;
  std::size_t asked_bytes = 0;
  int freed = 0;
};

TEST(WatcherTest, SeesWhatIsAskedForWhileItIsSet) {
  Stack stack;
  CountingWatcher watcher;
  void* before = stack->allocate(10, Stream::kDefault);
  stack.memory().setWatcher(&watcher);
  void* block = stack->allocate(10, Stream::kDefault);
  EXPECT_EQ(watcher.last, block);
  EXPECT_EQ(watcher.asked_bytes, 10U);
  stack->deallocate(nullptr);
  stack->deallocate(block);
  EXPECT_EQ(watcher.freed, 1);
  stack.memory().setWatcher(nullptr);
  stack->deallocate(before);
  EXPECT_EQ(watcher.freed, 1);
}

TEST(ObserverTest, SeesEveryBlockWhileItIsSet) {
  Stack stack;
  SummingObserver observer;
  void* before = stack->allocate(10, Stream::kDefault);
  stack.memory().setObserver(&observer);
  EXPECT_EQ(stack->allocate(0, Stream::kDefault), nullptr);
  stack->deallocate(nullptr);
  EXPECT_EQ(observer.events, 0);
  void* small = stack->allocate(10, Stream::kDefault);
  void* large = stack->allocate(size(kMiB), Stream::kDefault);
  EXPECT_EQ(observer.live_bytes, 64 + kMiB);
  stack->deallocate(small);
  stack->deallocate(large);
  EXPECT_EQ(observer.live_bytes, 0);
  EXPECT_EQ(observer.events, 4);
  stack.memory().setObserver(nullptr);
  stack->deallocate(before);
  EXPECT_EQ(observer.events, 4);
}

}  // namespace
}  // namespace ebbtide::allocator::test
