// Starts a command, waits for it within a time, and leaves none of its processes behind.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/interrupts.hpp"

namespace ebbtide::cli {

struct WatchedCommand {
  std::vector<std::string> words;        // the first one is looked for in PATH
  std::vector<std::string> environment;  // "NAME=value"
  std::string output;                    // file for stdout and stderr; it has no stdin
};

struct RunEnd {
  enum class Why : std::uint8_t { kStatus, kSignal, kLate, kInterrupted };

  Why why = Why::kStatus;
  int number = 0;  // exit status, signal or seconds
  double seconds = 0;

  bool succeeded() const { return why == Why::kStatus && number == 0; }
  std::string text() const;  // "ended with exit status 1"
};

// The command is in a session of its own, so a terminal's Ctrl-C reaches the caller alone. Once its
// first process has ended, those that it left are ended, also those in other sessions (torchrun's
// ranks): they become children of a guard (run_guard.hpp), which ends all of them, too, when the
// caller is killed. Throws std::invalid_argument where it cannot be started.
RunEnd watchedRun(const WatchedCommand& command, std::optional<std::chrono::seconds> limit,
                  const Interrupts& interrupts);

}  // namespace ebbtide::cli
