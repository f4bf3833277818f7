// The clocks of the system. steadyToUnixNs() is the calendar's at the steady one's zero, in
// nanoseconds since 1970: what is added to times of the steady clock for files that others read.
// The steady clock is the run's (run_clock.hpp).
// Torch-free.
#pragma once

#include <cstdint>

namespace ebbtide::plugin {

std::int64_t steadyNanoseconds() noexcept;
std::int64_t steadyToUnixNs() noexcept;
double unixSeconds() noexcept;  // now, since 1970

}  // namespace ebbtide::plugin
