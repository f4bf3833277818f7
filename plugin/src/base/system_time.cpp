#include "base/system_time.hpp"

#include <time.h>

#include <chrono>
#include <limits>

#include "base/run_clock.hpp"

namespace ebbtide::plugin {

std::int64_t steadyNanoseconds() noexcept {
  return RunClock::nanoseconds();
}

// The closest of a few looks: between two a thread may have to wait.
std::int64_t steadyToUnixNs() noexcept {
  std::int64_t offset_ns = 0, closest_ns = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 8; ++i) {
    const std::int64_t before_ns = steadyNanoseconds();
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const std::int64_t after_ns = steadyNanoseconds();
    if (after_ns - before_ns >= closest_ns) continue;
    closest_ns = after_ns - before_ns;
    offset_ns = now.tv_sec * 1'000'000'000LL + now.tv_nsec - (before_ns + closest_ns / 2);
  }
  return offset_ns;
}

double unixSeconds() noexcept {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace ebbtide::plugin
