// LD_PRELOAD: on the plugin's planning thread QUICK_PLANNER_TIMES seconds (10) pass in each one, so
// that tests need not wait for its minutes. All other threads have the time of the system.
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

using ClockGetTime = int (*)(clockid_t, timespec*);
using CondClockWait = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

std::int64_t nanoseconds(const timespec& time) {
  return time.tv_sec * kSecond + time.tv_nsec;
}

timespec timeOf(std::int64_t ns) {
  timespec time{};
  time.tv_sec = ns / kSecond;
  time.tv_nsec = ns % kSecond;
  return time;
}

int systemTime(clockid_t clock, timespec* time) {
  static const auto get = next<ClockGetTime>("clock_gettime");
  return get(clock, time);
}

std::int64_t times() {
  static const std::int64_t value = [] {
    const char* const text = std::getenv("QUICK_PLANNER_TIMES");
    return text == nullptr ? std::int64_t{10} : std::int64_t{std::atoll(text)};
  }();
  return value;
}

// Both clocks show the same at it.
std::int64_t origin() {
  static const std::int64_t ns = [] {
    timespec now{};
    systemTime(CLOCK_MONOTONIC, &now);
    return nanoseconds(now);
  }();
  return ns;
}

// It has its name before it first looks at a clock; threads that it makes inherit it.
bool plans() {
  thread_local const bool planner = [] {
    char name[16] = {};
    return pthread_getname_np(pthread_self(), name, sizeof name) == 0 &&
           std::strcmp(name, "ebbtide-plan") == 0;
  }();
  return planner;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock,
                                                                    timespec* time) noexcept {
  const int error = systemTime(clock, time);
  if (error == 0 && clock == CLOCK_MONOTONIC && plans())
    *time = timeOf(origin() + (nanoseconds(*time) - origin()) * times());
  return error;
}

extern "C" __attribute__((visibility("default"))) int pthread_cond_clockwait(
    pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  static const auto wait = next<CondClockWait>("pthread_cond_clockwait");
  if (clock != CLOCK_MONOTONIC || !plans()) return wait(condition, mutex, clock, until);
  const timespec time = timeOf(origin() + (nanoseconds(*until) - origin()) / times());
  return wait(condition, mutex, clock, &time);
}
