// Elapsed time, by the clock that never steps back.
#pragma once

#include <cstdint>

#include "base/run_clock.hpp"

namespace ebbtide::plugin {

using Clock = RunClock;

inline std::int64_t nanosecondsSince(Clock::time_point start) {
  return (Clock::now() - start).count();
}

}  // namespace ebbtide::plugin
