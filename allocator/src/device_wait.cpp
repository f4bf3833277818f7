#include "device_wait.hpp"

#include <cstdio>

namespace ebbtide::allocator {

namespace {

constexpr int kLaterShare = 16;  // of the longest wait

}  // namespace

bool DeviceWait::wait() noexcept {
  using Clock = std::chrono::steady_clock;
  const bool again = timed_out_.load(std::memory_order_relaxed);
  const std::chrono::nanoseconds most = again ? most_ / kLaterShare : most_;
  const Clock::time_point begin = Clock::now();
  const bool done = events_.synchronize(most);
  if (done || Clock::now() - begin >= most) timed_out_.store(!done, std::memory_order_relaxed);
  if (done) {
    told_.store(false, std::memory_order_relaxed);
  } else if (!told_.exchange(true, std::memory_order_relaxed)) {
    std::fprintf(stderr,
                 "ebbtide: the device did not finish its work within %.1f s, or a graph is being "
                 "captured: memory that it may still use is not reused\n",
                 std::chrono::duration<double>(most_).count());
  }
  return done;
}

}  // namespace ebbtide::allocator
