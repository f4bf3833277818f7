#include "ebbtide/metrics/held_signal.hpp"

#include <pthread.h>

#include <cerrno>
#include <ctime>

namespace ebbtide::metrics {

HeldSignal::HeldSignal(int signal) noexcept {
  const int error = errno;
  sigset_t pending;
  ::sigemptyset(&signal_);
  ::sigaddset(&signal_, signal);
  ::sigpending(&pending);
  was_pending_ = ::sigismember(&pending, signal) == 1;
  ::pthread_sigmask(SIG_BLOCK, &signal_, &mask_before_);
  errno = error;
}

HeldSignal::~HeldSignal() {
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  errno = error;
}

void HeldSignal::take() noexcept {
  if (was_pending_) return;
  const int error = errno;
  const timespec none{};
  while (::sigtimedwait(&signal_, nullptr, &none) < 0 && errno == EINTR) {
  }
  errno = error;
}

}  // namespace ebbtide::metrics
