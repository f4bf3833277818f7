// The clock of durations that a plan, a report, a series or NCCL's profiler plugin reads. It is the
// steady clock, and a thread's processor time. Where the process defines the two functions below,
// theirs take the place of both: an emulated GPU's times are virtual, and real ones must not mix
// with them (docs/gpu.md). What waits for a thread or a process stays on the steady clock.
// Torch-free.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

// Nanoseconds since any moment; of the process, and processor time of the calling thread.
extern "C" {
[[gnu::weak, gnu::visibility("default")]] std::int64_t ebbtide_run_clock_ns() noexcept;
[[gnu::weak, gnu::visibility("default")]] std::int64_t ebbtide_run_clock_busy_ns() noexcept;
}

namespace ebbtide::plugin {

struct RunClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<RunClock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept {
    if (ebbtide_run_clock_ns != nullptr) return time_point(duration(ebbtide_run_clock_ns()));
    return time_point(
        std::chrono::duration_cast<duration>(std::chrono::steady_clock::now().time_since_epoch()));
  }
  static std::int64_t nanoseconds() noexcept { return now().time_since_epoch().count(); }
  static std::int64_t busyNanoseconds() noexcept {
    if (ebbtide_run_clock_busy_ns != nullptr) return ebbtide_run_clock_busy_ns();
    timespec busy{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &busy);
    return std::int64_t{busy.tv_sec} * 1'000'000'000 + busy.tv_nsec;
  }
};

}  // namespace ebbtide::plugin
