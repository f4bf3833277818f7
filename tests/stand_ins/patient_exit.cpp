// LD_PRELOAD: a process that SIGTERM ends has 600 s more to leave its files. On a busy machine its
// own 5 s may pass while it does not run. The thread that waits reads a clock 600 s ahead, so its
// deadline is later.
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstring>

namespace {

constexpr time_t kAheadSeconds = 600;

// The thread that waits. It has its name before the signal may come. Threads that it starts inherit
// the name.
std::atomic<pthread_t> waits{};

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define VISIBLE extern "C" __attribute__((visibility("default")))

VISIBLE int pthread_setname_np(pthread_t thread, const char* name) noexcept {
  static const auto system = next<int (*)(pthread_t, const char*)>("pthread_setname_np");
  if (std::strcmp(name, "ebbtide-exit") == 0) waits = thread;
  return system(thread, name);
}

VISIBLE int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto system = next<int (*)(clockid_t, timespec*)>("clock_gettime");
  const int error = system(clock, time);
  if (error == 0 && pthread_equal(pthread_self(), waits.load()) != 0) time->tv_sec += kAheadSeconds;
  return error;
}
