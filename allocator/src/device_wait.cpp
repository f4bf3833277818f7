#include "device_wait.hpp"

#include <cstdio>

namespace ebbtide::allocator {

bool DeviceWait::wait() noexcept {
  const bool done = events_.synchronize(most_);
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
