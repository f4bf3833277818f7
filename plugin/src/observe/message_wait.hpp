// MessageWait: how long the calling thread stood still for a message, for RunTrace. No library
// tells when a program waits for Gloo's messages: it is the time in which the thread did not run,
// between two moments that we see, after it asked for one.
//
// Thread rule: of the thread that it belongs to. Torch-free.
#pragma once

#include "observe/run_trace.hpp"
#include "record/log/event_log.hpp"

namespace ebbtide::plugin {

class MessageWait {
 public:
  void ask() noexcept {
    looks_left_ = kLooks;
    last_ = ThreadMoment::now();
  }
  void look(RunTrace& trace) noexcept;  // at each moment that we see

 private:
  static constexpr int kLooks = 64;                   // the wait comes soon, or does not
  static constexpr std::int64_t kShortest = 100'000;  // nanoseconds: less is the system's

  int looks_left_ = 0;
  ThreadMoment last_;
};

}  // namespace ebbtide::plugin
