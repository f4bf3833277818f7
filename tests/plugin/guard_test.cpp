#include "base/guard.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace ebbtide::plugin {
namespace {

using TheGuard = Guard<struct OfTest>;
using Held = TheGuard::Held;

// Nobody but the guard makes one, and none is there that is not held.
static_assert(!std::is_default_constructible_v<Held> && !std::is_copy_constructible_v<Held> &&
              !std::is_move_constructible_v<Held> && !std::is_move_assignable_v<Held>);
static_assert(!std::is_constructible_v<Held, std::unique_lock<std::mutex>>);
// The token of another guard opens nothing.
static_assert(!std::is_convertible_v<Guard<struct OfOther>::Held&, const Held&>);

bool isFree(TheGuard& guard) {
  bool free = false;
  std::thread([&] { free = guard.tryHold().has_value(); }).join();
  return free;
}

TEST(Guard, IsHeldWhileItsTokenLives) {
  TheGuard guard;
  {
    const auto held = guard.hold();
    EXPECT_FALSE(isFree(guard));
  }
  EXPECT_TRUE(isFree(guard));
}

TEST(Guard, IsHeldByATokenThatWasTried) {
  TheGuard guard;
  {
    const auto held = guard.tryHold();
    ASSERT_TRUE(held);
    EXPECT_FALSE(isFree(guard));
  }
  EXPECT_TRUE(isFree(guard));
}

// As a fork's handlers take it and let go of it.
TEST(Guard, IsHeldBetweenLockAndUnlock) {
  TheGuard guard;
  guard.lockForFork();
  EXPECT_FALSE(isFree(guard));
  guard.unlockAfterFork();
  EXPECT_TRUE(isFree(guard));
}

// The other thread can only change it while this one waits.
TEST(Guard, IsFreeWhileItsTokenWaits) {
  TheGuard guard;
  Guarded<int, OfTest> state(1);
  std::condition_variable changed;
  std::thread other;
  {
    Held held = guard.hold();
    other = std::thread([&] {
      const auto mine = guard.hold();
      state.with(mine) = 2;
      changed.notify_all();
    });
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    EXPECT_TRUE(held.waitUntil(changed, until, [&] { return state.with(held) == 2; }));
    EXPECT_FALSE(isFree(guard));
  }
  other.join();
}

TEST(Guard, AWaitEndsAtItsTime) {
  TheGuard guard;
  std::condition_variable changed;
  Held held = guard.hold();
  const auto now = std::chrono::steady_clock::now();
  EXPECT_FALSE(held.waitUntil(changed, now, [] { return false; }));
  EXPECT_FALSE(isFree(guard));
}

// 4 threads, 1,000 additions each.
TEST(Guarded, LosesNoChange) {
  TheGuard guard;
  Guarded<int, OfTest> sum;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 1000; ++k) ++sum.with(guard.hold());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::as_const(sum).with(guard.hold()), 4000);
}

}  // namespace
}  // namespace ebbtide::plugin
