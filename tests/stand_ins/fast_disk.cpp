// LD_PRELOAD: a disk of 16 bytes a nanosecond, whatever the machine has and does beside it. On the
// thread that reads or writes, nothing else passes between the looks at the clock before and after:
// neither what the system took longer, nor checksums.
#include <dlfcn.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace {

constexpr std::int64_t kBytesPerNs = 16;

thread_local std::int64_t hidden_ns = 0;
thread_local std::int64_t seen_ns = 0;  // real, of the last look or transfer
thread_local bool transferred = false;  // since the last look

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

using ClockGetTime = int (*)(clockid_t, timespec*);

int systemTime(clockid_t clock, timespec* time) {
  static const auto get = next<ClockGetTime>("clock_gettime");
  return get(clock, time);
}

std::int64_t nanosecondsOf(const timespec& time) {
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

std::int64_t now() {
  timespec time{};
  systemTime(CLOCK_MONOTONIC, &time);
  return nanosecondsOf(time);
}

template <typename Call>
ssize_t hide(Call&& call) {
  const std::int64_t start = seen_ns != 0 ? seen_ns : now();
  const ssize_t bytes = call();
  seen_ns = now();
  hidden_ns += seen_ns - start - std::max<std::int64_t>(0, bytes) / kBytesPerNs;
  transferred = true;
  return bytes;
}

}  // namespace

#define VISIBLE extern "C" __attribute__((visibility("default")))

VISIBLE int clock_gettime(clockid_t clock, timespec* time) {
  const int result = systemTime(clock, time);
  if (result != 0 || clock != CLOCK_MONOTONIC) return result;
  const std::int64_t real_ns = nanosecondsOf(*time);
  if (std::exchange(transferred, false)) hidden_ns += real_ns - seen_ns;
  seen_ns = real_ns;
  const std::int64_t ns = real_ns - hidden_ns;
  time->tv_sec = ns / 1'000'000'000;
  time->tv_nsec = ns % 1'000'000'000;
  return 0;
}

VISIBLE ssize_t pwrite(int file, const void* data, std::size_t bytes, off_t offset) {
  static const auto system = next<decltype(&pwrite)>("pwrite");
  return hide([&] { return system(file, data, bytes, offset); });
}

VISIBLE ssize_t pread(int file, void* data, std::size_t bytes, off_t offset) {
  static const auto system = next<decltype(&pread)>("pread");
  return hide([&] { return system(file, data, bytes, offset); });
}
