// EarlyEnd: a process ends where a training step begins, as if its program had ended there. For
// `ebbtide fit`, which measures the first steps. Torch-free.
//
//   first training op ──► a file PID.trains in the folder
//   step N + 1 begins on a rank ──► PID.ended ──► all local ranks have theirs, or kMostWait, or
//   kLateWait while another one still trains ──► exit handlers, exit status 0
//
// A rank that ended at once could break a collective in which others still are.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ebbtide::plugin {

class EarlyEnd {
 public:
  static constexpr auto kMostWait = std::chrono::seconds(10);  // where others have crashed, say
  // For ranks that still train: a busy machine may hold them up.
  static constexpr auto kLateWait = std::chrono::seconds(60);

  // What an interpreter does at its end, and does not come back from; else std::exit(0).
  static void leaveBy(void (*leave)()) noexcept;
  // Tells a program without steps from one without us: a file `loaded`.
  static void announce(const std::string& folder) noexcept;
  // This process trains: a file PID.trains. Others wait longer for it while it is alive.
  static void noteTraining(const std::string& folder) noexcept;
  // Returns in other threads, and in exit functions that compute: once a process.
  static void end(const std::string& folder, int local_ranks,
                  std::chrono::milliseconds most_wait = kMostWait) noexcept;
  static bool begun() noexcept;  // from then on no step begins

  // Waits until so many processes have ended, or for `most`; for `late_wait` while one that trains
  // is alive and has not ended.
  static void waitForOthers(const std::string& folder, int local_ranks,
                            std::chrono::milliseconds most,
                            std::chrono::milliseconds late_wait = kLateWait) noexcept;
};

}  // namespace ebbtide::plugin
