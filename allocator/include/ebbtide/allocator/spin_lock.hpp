// SpinLock: for a few dozen nanoseconds of bookkeeping, where a mutex would cost as much again.
// Gives the core away when its holder does not run.
#pragma once

#include <sched.h>

#include <atomic>

namespace ebbtide::allocator {

class SpinLock {
 public:
  void lock() noexcept {
    for (int spins = 0; taken_.exchange(true, std::memory_order_acquire);) {
      while (taken_.load(std::memory_order_relaxed)) {
        if (++spins % kSpins == 0) ::sched_yield();
      }
    }
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 100;

  std::atomic<bool> taken_{false};
};

}  // namespace ebbtide::allocator
