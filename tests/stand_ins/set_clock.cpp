// LD_PRELOAD: the machine's clock, as somebody sets it in mid-run. What only goes on, the monotonic
// clock and the processor's time, stays the system's.
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#include <atomic>
#include <cstdint>

namespace {

std::atomic<std::int64_t> ahead_s{0};

using ClockGetTime = int (*)(clockid_t, timespec*);

timespec now() {
  static const auto system = reinterpret_cast<ClockGetTime>(dlsym(RTLD_NEXT, "clock_gettime"));
  timespec time{};
  system(CLOCK_REALTIME, &time);
  time.tv_sec += ahead_s.load();
  return time;
}

}  // namespace

#define VISIBLE extern "C" __attribute__((visibility("default")))

VISIBLE void set_clock(std::int64_t seconds_ahead) {
  ahead_s = seconds_ahead;
}

VISIBLE int clock_gettime(clockid_t clock, timespec* time) {
  static const auto system = reinterpret_cast<ClockGetTime>(dlsym(RTLD_NEXT, "clock_gettime"));
  if (clock != CLOCK_REALTIME) return system(clock, time);
  *time = now();
  return 0;
}

VISIBLE int gettimeofday(timeval* time, void*) {
  const timespec exact = now();
  time->tv_sec = exact.tv_sec;
  time->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

VISIBLE time_t time(time_t* seconds) {
  const timespec exact = now();
  if (seconds != nullptr) *seconds = exact.tv_sec;
  return exact.tv_sec;
}
