// LD_PRELOAD: the monotonic clock goes a day ahead once the file that LATE_CLOCK names is there. A
// time limit is then over at an event, however slow the machine is.
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace {

constexpr time_t kAheadSeconds = 24 * 3600;

bool isLate() {
  static const char* const file = std::getenv("LATE_CLOCK");
  static std::atomic<bool> late{false};
  const int before = errno;
  if (!late && file != nullptr && ::access(file, F_OK) == 0) late = true;
  errno = before;
  return late;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock,
                                                                    timespec* time) noexcept {
  static const auto system =
      reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int error = system(clock, time);
  if (error == 0 && clock == CLOCK_MONOTONIC && isLate()) time->tv_sec += kAheadSeconds;
  return error;
}
