// DeviceWait: waits for all that the device has queued, but not for ever.
#pragma once

#include <atomic>
#include <chrono>

#include "ebbtide/allocator/stream_events.hpp"

namespace ebbtide::allocator {

class DeviceWait {
 public:
  DeviceWait(StreamEvents& events, std::chrono::nanoseconds most) noexcept
      : events_(events), most_(most) {}

  // False when it takes longer, which is said on stderr the first time in a row. The next waits are
  // shorter, until one is long enough: or each allocation that is short of memory would take as
  // long again.
  bool wait() noexcept;

 private:
  StreamEvents& events_;
  const std::chrono::nanoseconds most_;
  std::atomic<bool> told_{false};
  std::atomic<bool> timed_out_{false};  // the last one; not refused, as in a graph's capture
};

}  // namespace ebbtide::allocator
