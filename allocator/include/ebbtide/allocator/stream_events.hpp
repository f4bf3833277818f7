// StreamEvents: when has a stream done what was queued on it? Boundary to the device's events; the
// implementation pools them.
//
// Thread rule: any thread, any time.
#pragma once

#include <chrono>
#include <memory>

#include "ebbtide/allocator/bytes.hpp"

namespace ebbtide::allocator {

class StreamEvents {
 public:
  // kDone: nothing to wait for. kNone: the device refused; only synchronize() tells.
  enum class Event : std::uint64_t { kDone = 0, kNone = UINT64_MAX };

  virtual ~StreamEvents() = default;
  // Done when all that is queued on the stream now is done.
  virtual Event record(Stream stream) noexcept = 0;
  // Never waits. False while a capture forbids to ask.
  virtual bool isDone(Event event) noexcept = 0;
  // The event goes back to the pool, done or not.
  virtual void recycle(Event event) noexcept = 0;
  // Waits for all streams of the device. False when they are not done after `most`.
  virtual bool synchronize(std::chrono::nanoseconds most) noexcept = 0;
};

// For memory that is used only while the thread that uses it runs: everything is done at once.
std::unique_ptr<StreamEvents> makeHostEvents();

}  // namespace ebbtide::allocator
