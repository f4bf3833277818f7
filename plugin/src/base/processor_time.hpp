// Processor time that was used. It is real, while RunClock's time may be an emulated GPU's.
// Torch-free.
#pragma once

#include <time.h>

#include <chrono>

namespace ebbtide::plugin {

struct ProcessorTime {
  static std::chrono::nanoseconds ofThread() noexcept { return of(CLOCK_THREAD_CPUTIME_ID); }
  static std::chrono::nanoseconds ofProcess() noexcept { return of(CLOCK_PROCESS_CPUTIME_ID); }
  // Zero where the clock's thread has ended.
  static std::chrono::nanoseconds of(clockid_t clock) noexcept {
    timespec used{};
    if (clock_gettime(clock, &used) != 0) return {};
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
  }
};

}  // namespace ebbtide::plugin
