// HeldSignal: while one lives, a signal that a write of this thread raises ends no process: SIGPIPE
// of a pipe that nobody reads, SIGXFSZ of a file over RLIMIT_FSIZE. Python ignores both, a C++
// program ends by them. The kernel sends them to the thread that writes, so it can take them back.
//
// Thread rule: the thread that made it. errno stays as it is.
#pragma once

#include <csignal>

namespace ebbtide::metrics {

class HeldSignal {
 public:
  explicit HeldSignal(int signal) noexcept;
  ~HeldSignal();
  HeldSignal(const HeldSignal&) = delete;
  HeldSignal& operator=(const HeldSignal&) = delete;

  // A write has failed as one that raises it does. What was there before is somebody else's.
  void take() noexcept;

 private:
  sigset_t signal_, mask_before_;
  bool was_pending_ = false;
};

}  // namespace ebbtide::metrics
