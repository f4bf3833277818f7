// The reclaim contract: no lock held, bounded, believed by its effect, never re-entered.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "spy_backend.hpp"

namespace ebbtide::allocator::test {
namespace {

class ScriptedReclaimer final : public Reclaimer {
 public:
  explicit ScriptedReclaimer(std::function<Bytes(Bytes)> script) : script_(std::move(script)) {}
  Bytes reclaim(Bytes need_bytes) noexcept override {
    ++calls;
    last_need_bytes = need_bytes;
    return script_(need_bytes);
  }
  std::atomic<int> calls{0};
  std::atomic<Bytes> last_need_bytes{0};

 private:
  std::function<Bytes(Bytes)> script_;
};

// Four live blocks of 1 MiB fill the budget of 4 MiB.
class ReclaimTest : public testing::Test {
 protected:
  ReclaimTest() {
    spied_.limit(4 * kMiB);
    for (int i = 0; i < 4; ++i) held_.push_back(spied_->allocate(requestFor(kMiB)));
  }

  ~ReclaimTest() override {
    spied_->setReclaimer(nullptr);
    while (!held_.empty()) freeOne();
  }

  Bytes freeOne() {
    if (held_.empty()) return 0;
    spied_->deallocate(held_.back());
    held_.pop_back();
    return kMiB;
  }

  SpiedResource spied_;
  std::vector<void*> held_;
};

TEST_F(ReclaimTest, IsAskedForTheShortfallUntilItIsEnough) {
  ScriptedReclaimer reclaimer([&](Bytes) { return freeOne(); });
  spied_->setReclaimer(&reclaimer);
  void* block = spied_->allocate(requestFor(2 * kMiB));  // two calls free the two blocks it takes
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(reclaimer.calls, 2);
  EXPECT_EQ(reclaimer.last_need_bytes, kMiB);  // the second time one of two was still missing
  EXPECT_EQ(spied_->statistics().reclaims, 2);
  EXPECT_EQ(spied_->statistics().mapped_bytes, 4 * kMiB);
  spied_->deallocate(block);
}

TEST_F(ReclaimTest, CountsRoomAndCacheBeforeItAsks) {
  freeOne();  // 1 MiB cached
  ScriptedReclaimer reclaimer([&](Bytes) { return freeOne(); });
  spied_->setReclaimer(&reclaimer);
  void* block = spied_->allocate(requestFor(kMiB + 8 * kPage));
  EXPECT_EQ(reclaimer.calls, 1);
  EXPECT_EQ(reclaimer.last_need_bytes, 8 * kPage);
  spied_->deallocate(block);
}

TEST_F(ReclaimTest, ALiarIsAskedOnce) {
  ScriptedReclaimer reclaimer([](Bytes need) { return 10 * need; });
  spied_->setReclaimer(&reclaimer);
  EXPECT_EQ(spied_->allocate(requestFor(kMiB)), nullptr);
  EXPECT_EQ(reclaimer.calls, 1);
}

TEST_F(ReclaimTest, AModestOneIsBelievedByItsEffect) {
  ScriptedReclaimer reclaimer([&](Bytes) { return freeOne() * 0; });
  spied_->setReclaimer(&reclaimer);
  void* block = spied_->allocate(requestFor(3 * kMiB));
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(reclaimer.calls, 3);
  spied_->deallocate(block);
}

TEST_F(ReclaimTest, EightCallsAreEnoughForAnyone) {
  while (!held_.empty()) freeOne();
  spied_->releaseCached();
  for (int i = 0; i < 64; ++i) held_.push_back(spied_->allocate(requestFor(64 * kKiB)));
  ScriptedReclaimer reclaimer([&](Bytes) { return freeOne(); });
  spied_->setReclaimer(&reclaimer);
  // 16 blocks of 64 KiB would be needed.
  EXPECT_EQ(spied_->allocate(requestFor(kMiB)), nullptr);
  EXPECT_EQ(reclaimer.calls, 8);
}

TEST_F(ReclaimTest, WithoutProgressTheOverrunPolicyDecides) {
  spied_.log->ceiling_bytes = 5 * kMiB;
  spied_->allowOverrun(true);
  ScriptedReclaimer reclaimer([](Bytes) { return 0; });
  spied_->setReclaimer(&reclaimer);
  void* block = spied_->allocate(requestFor(kMiB));
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(reclaimer.calls, 1);
  EXPECT_EQ(spied_->statistics().budget_violations, 1);
  EXPECT_EQ(spied_->statistics().mapped_bytes, 5 * kMiB);
  spied_->deallocate(block);
}

TEST_F(ReclaimTest, ANestedAllocationUsesWhatWasFreedAndDoesNotReenter) {
  void* staging = nullptr;
  bool refused = false;
  ScriptedReclaimer reclaimer([&](Bytes) {
    refused = spied_->allocate(requestFor(256 * kKiB)) == nullptr;  // nothing is free yet
    freeOne();
    freeOne();
    staging = spied_->allocate(requestFor(256 * kKiB));
    return 2 * kMiB - 256 * kKiB;
  });
  spied_->setReclaimer(&reclaimer);
  void* block = spied_->allocate(requestFor(kMiB));
  EXPECT_NE(block, nullptr);
  EXPECT_NE(staging, nullptr);
  EXPECT_TRUE(refused);
  EXPECT_EQ(reclaimer.calls, 1);
  spied_->deallocate(staging);
  spied_->deallocate(block);
}

TEST_F(ReclaimTest, ANestedAllocationMayOverrun) {
  spied_.log->ceiling_bytes = kUnlimited;
  spied_->allowOverrun(true);
  ScriptedReclaimer reclaimer([&](Bytes) {
    void* staging = spied_->allocate(requestFor(256 * kKiB));
    EXPECT_NE(staging, nullptr);
    spied_->deallocate(staging);
    return freeOne();
  });
  spied_->setReclaimer(&reclaimer);
  void* block = spied_->allocate(requestFor(kMiB));
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(reclaimer.calls, 1);
  EXPECT_EQ(spied_->statistics().budget_violations, 1);  // the nested one only
  spied_->deallocate(block);
}

TEST_F(ReclaimTest, ASmallRequestTakesAFreedSlot) {
  freeOne();
  std::vector<void*> small;
  while (void* block = spied_->allocate(1000)) small.push_back(block);
  ScriptedReclaimer reclaimer([&](Bytes) {
    spied_->deallocate(small.back());  // frees no page
    small.pop_back();
    return 0;
  });
  spied_->setReclaimer(&reclaimer);
  void* block = spied_->allocate(1000);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(reclaimer.calls, 1);
  spied_->deallocate(block);
  for (void* each : small) spied_->deallocate(each);
}

TEST_F(ReclaimTest, IsAskedWhenTheSystemRefuses) {
  spied_.limit(64 * kMiB);
  ScriptedReclaimer reclaimer([&](Bytes) { return freeOne(); });
  spied_->setReclaimer(&reclaimer);
  spied_.log->refuse_maps = 1;
  void* block = spied_->allocate(requestFor(2 * kMiB));  // refused, reclaim, given back, mapped
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(reclaimer.calls, 1);
  EXPECT_EQ(reclaimer.last_need_bytes, 2 * kMiB);
  EXPECT_EQ(spied_->statistics().mapped_bytes, 5 * kMiB);  // 4 - 1 + 2
  spied_.log->refuse_maps = 100;
  EXPECT_EQ(spied_->allocate(requestFor(4 * kMiB)), nullptr);
  EXPECT_EQ(reclaimer.calls, 2);
  spied_.log->refuse_maps = 0;
  spied_->deallocate(block);
}

// Thread A reclaims slowly; B comes meanwhile, waits, and finds what A's call freed.
//
//   A: allocate ─ reclaim ......... frees 2 ─ block
//   B:            allocate ─ waits ────────── block
TEST_F(ReclaimTest, ASecondThreadWaitsForTheFirstReclaim) {
  std::atomic<bool> entered{false};
  std::atomic<bool> second_started{false};
  ScriptedReclaimer reclaimer([&](Bytes) {
    entered = true;
    while (!second_started) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return freeOne() + freeOne();
  });
  spied_->setReclaimer(&reclaimer);
  void* first = nullptr;
  std::thread thread([&] { first = spied_->allocate(requestFor(kMiB)); });
  while (!entered) std::this_thread::yield();
  second_started = true;
  void* second = spied_->allocate(requestFor(kMiB));
  thread.join();
  EXPECT_NE(first, nullptr);
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(reclaimer.calls, 1);
  spied_->deallocate(first);
  spied_->deallocate(second);
}

TEST_F(ReclaimTest, ReplacingItWaitsUntilItIsDone) {
  std::atomic<bool> entered{false};
  std::atomic<bool> left{false};
  ScriptedReclaimer reclaimer([&](Bytes) {
    entered = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    left = true;
    return 0;
  });
  spied_->setReclaimer(&reclaimer);
  std::thread thread([&] { EXPECT_EQ(spied_->allocate(requestFor(kMiB)), nullptr); });
  while (!entered) std::this_thread::yield();
  spied_->setReclaimer(nullptr);
  EXPECT_TRUE(left);
  thread.join();
}

// Eight threads want more than there is. The reclaimer takes from a pool that they feed.
TEST_F(ReclaimTest, ManyThreadsShareOneReclaimer) {
  std::mutex pool_mutex;
  std::vector<void*> pool = std::move(held_);
  held_.clear();
  std::atomic<int> inside{0};
  std::atomic<int> overlapping{0};
  ScriptedReclaimer reclaimer([&](Bytes) {
    if (++inside > 1) ++overlapping;
    void* block = nullptr;
    {
      const std::lock_guard lock(pool_mutex);
      if (!pool.empty()) {
        block = pool.back();
        pool.pop_back();
      }
    }
    spied_->deallocate(block);
    --inside;
    return block == nullptr ? 0 : kMiB;
  });
  spied_->setReclaimer(&reclaimer);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        if (void* block = spied_->allocate(requestFor(kMiB))) {
          const std::lock_guard lock(pool_mutex);
          pool.push_back(block);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(overlapping, 0);
  EXPECT_GT(spied_->statistics().reclaims, 300);
  EXPECT_EQ(pool.size(), 4U);  // what the budget holds; every further block replaced one
  held_ = std::move(pool);
}

}  // namespace
}  // namespace ebbtide::allocator::test
