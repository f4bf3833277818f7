// The one lock over all devices. Who waits for another process lets this process's threads in: they
// may have to ask for what that process waits for.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>

namespace emulated_gpu {

class DeviceLock {
 public:
  void lock() {
    mutex_.lock();
    ++depth_;
  }
  void unlock() {
    --depth_;
    mutex_.unlock();
  }
  // By its holder: whatever it knew of queues may be otherwise when this returns.
  void letOthersIn() {
    const int depth = depth_;
    ++times_;
    for (int i = 0; i < depth; ++i) unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    for (int i = 0; i < depth; ++i) lock();
  }
  std::uint64_t timesLetIn() const { return times_; }

 private:
  std::recursive_mutex mutex_;
  int depth_ = 0;            // of its holder
  std::uint64_t times_ = 0;  // that a holder let others in
};

}  // namespace emulated_gpu
