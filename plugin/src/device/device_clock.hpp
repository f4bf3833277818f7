// DeviceClock: how long an op takes on the device. On a GPU an op has not run when its call
// returns: there marks are events, read when the times are wanted.
//
// Thread rule: any thread; the two marks of a span come from one. Torch-free.
#pragma once

#include <cstdint>
#include <utility>

namespace ebbtide::plugin {

class DeviceClock {
 public:
  using Mark = std::int64_t;

  virtual ~DeviceClock() = default;
  // After all that this thread has asked the device for so far.
  virtual Mark mark() = 0;
  // Without what the thread spent on giving values up. May wait for the device.
  virtual std::int64_t nanosecondsBetween(Mark begin, Mark end) = 0;
  virtual void release(Mark mark) noexcept = 0;  // each one, once
};

// The time from its construction to end(). Empty ones took none.
class TimeSpan {
 public:
  TimeSpan() = default;
  explicit TimeSpan(DeviceClock& clock) : clock_(&clock), begin_(clock.mark()) {}
  TimeSpan(TimeSpan&& other) noexcept { swap(other); }
  TimeSpan& operator=(TimeSpan&& other) noexcept {
    swap(other);
    return *this;
  }
  ~TimeSpan() { release(); }

  void end() {
    if (clock_ == nullptr || ended_) return;
    end_ = clock_->mark();
    ended_ = true;
  }
  // 0 before its end. Read once: the marks are given back.
  std::int64_t nanoseconds() {
    if (clock_ != nullptr && ended_) {
      nanoseconds_ = clock_->nanosecondsBetween(begin_, end_);
      release();
    }
    return nanoseconds_;
  }

 private:
  void swap(TimeSpan& other) noexcept {
    std::swap(clock_, other.clock_);
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
    std::swap(ended_, other.ended_);
    std::swap(nanoseconds_, other.nanoseconds_);
  }
  void release() noexcept {
    if (clock_ == nullptr) return;
    clock_->release(begin_);
    if (ended_) clock_->release(end_);
    clock_ = nullptr;
  }

  DeviceClock* clock_ = nullptr;
  DeviceClock::Mark begin_ = 0, end_ = 0;
  bool ended_ = false;
  std::int64_t nanoseconds_ = 0;
};

}  // namespace ebbtide::plugin
