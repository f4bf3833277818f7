// The virtual clock's figures, for those who measure, and as the product's clock: its functions are
// found by name (plugin/src/base/run_clock.hpp).
#include <algorithm>
#include <chrono>

#include "api.hpp"
#include "seam.h"
#include "settings.hpp"

using namespace emulated_gpu;

API void emulated_gpu_enter() {
  HostTime::get().enter();
}
API void emulated_gpu_leave() {
  HostTime::get().leave();
}
API int emulated_gpu_outside() {
  return HostTime::get().outside();
}
API void emulated_gpu_inside(int depth) {
  HostTime::get().inside(depth);
}
API double emulated_gpu_communication_time(std::size_t bytes, int ranks) {
  return settings().timed() ? communicationTime(bytes, ranks) : -1;
}
API std::size_t emulated_gpu_times(double* figures, std::size_t room) {
  const Lock lock(device_lock);
  const HostTimes host = HostTime::get().times();
  const Device& of = currentDevice();
  const double all[] = {host.now,
                        host.processor,
                        host.calls,
                        host.waited,
                        host.stalled,
                        of.busy,
                        static_cast<double>(host.waits),
                        static_cast<double>(host.launches),
                        static_cast<double>(host.copies),
                        static_cast<double>(host.page_calls),
                        static_cast<double>(of.used_bytes),
                        static_cast<double>(of.most_used_bytes)};
  std::copy_n(all, std::min(room, std::size(all)), figures);
  return std::size(all);
}

API std::int64_t ebbtide_run_clock_ns() {
  if (settings().timed()) return static_cast<std::int64_t>(HostTime::get().now());
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
// Timed: of the process, which is what the host did not wait for.
API std::int64_t ebbtide_run_clock_busy_ns() {
  if (settings().timed()) {
    const HostTimes host = HostTime::get().times();
    return static_cast<std::int64_t>(host.now - host.waited - host.stalled);
  }
  timespec busy{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &busy);
  return std::int64_t{busy.tv_sec} * 1'000'000'000 + busy.tv_nsec;
}
