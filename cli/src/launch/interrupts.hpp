// Interrupts: SIGINT, SIGTERM and SIGHUP are noted while one of these lives, so that what was
// started can be ended and removed first. One at a time.
#pragma once

#include <signal.h>

#include <array>

namespace ebbtide::cli {

class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  int signal() const;  // the last one; 0: none
  int count() const;
  // As if it had not been noted: ends the process, unless the signal was ignored before.
  void raiseNoted();

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};

  void restore();

  std::array<struct sigaction, 3> before_{};
};

}  // namespace ebbtide::cli
