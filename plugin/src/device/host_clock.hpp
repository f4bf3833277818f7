// HostClock: DeviceClock of the CPU, where a call returns when its work is done. A mark is the time
// less all that the thread has spent on giving values up.
#pragma once

#include "base/elapsed.hpp"
#include "base/thread_scopes.hpp"
#include "device/device_clock.hpp"

namespace ebbtide::plugin {

class HostClock final : public DeviceClock {
 public:
  Mark mark() override { return Clock::nanoseconds() - evictionNs(); }
  std::int64_t nanosecondsBetween(Mark begin, Mark end) override { return end - begin; }
  void release(Mark) noexcept override {}
};

}  // namespace ebbtide::plugin
