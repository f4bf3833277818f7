// EarlyEnd: a process ends where a training step begins, as if its program had ended there. For
// `ebbtide fit`, which measures the first steps. Torch-free.
//
//   step N + 1 begins on a rank ──► a file in the folder ──► all local ranks have theirs, or
//   kMostWait ──► exit handlers, exit status 0
//
// A rank that ended at once could break a collective in which others still are.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ebbtide::plugin {

class EarlyEnd {
 public:
  static constexpr auto kMostWait = std::chrono::seconds(10);

  // What an interpreter does at its end, and does not come back from; else std::exit(0).
  static void leaveBy(void (*leave)()) noexcept;
  // Tells a program without steps from one without us: a file `loaded`.
  static void announce(const std::string& folder) noexcept;
  // Returns in other threads, and in exit functions that compute: once a process.
  static void end(const std::string& folder, int local_ranks) noexcept;
  static bool begun() noexcept;  // from then on no step begins

  // Waits until so many processes have ended, or for that time at most.
  static void waitForOthers(const std::string& folder, int local_ranks,
                            std::chrono::milliseconds most) noexcept;
};

}  // namespace ebbtide::plugin
