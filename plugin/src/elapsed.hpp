// Elapsed time, by the clock that never steps back.
#pragma once

#include <chrono>
#include <cstdint>

namespace ebbtide::plugin {

using Clock = std::chrono::steady_clock;

inline std::int64_t nanosecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

}  // namespace ebbtide::plugin
