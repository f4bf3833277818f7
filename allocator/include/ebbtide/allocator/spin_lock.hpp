// SpinLock: for a few dozen nanoseconds of bookkeeping, where a mutex would cost as much again.
//
// Who finds it taken stays away from it for longer each time: else two threads hand it over at each
// turn, with all the lines that it guards, which takes several times as long as the turn. Gives the
// core away when its holder may not run.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>

namespace ebbtide::allocator {

class SpinLock {
 public:
  void lock() noexcept {
    if (taken_.exchange(true, std::memory_order_acquire)) wait();
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  static constexpr int kLeastPauses = 8;
  static constexpr int kMostPauses = 1024;  // about 40 microseconds

  [[gnu::noinline]] void wait() noexcept {
    for (int pauses = kLeastPauses;; pauses = std::min(2 * pauses, kMostPauses)) {
      for (int i = 0; i < pauses; ++i) pause();
      if (pauses == kMostPauses) ::sched_yield();
      if (taken_.load(std::memory_order_relaxed)) continue;
      if (!taken_.exchange(true, std::memory_order_acquire)) return;
    }
  }

  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  std::atomic<bool> taken_{false};
};

}  // namespace ebbtide::allocator
