// When a search must end. Without a limit the clock is not read.
#pragma once

#include <chrono>

namespace ebbtide::scheduler {

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();

inline bool isPast(Deadline deadline) {
  return deadline != kNoDeadline && std::chrono::steady_clock::now() >= deadline;
}

}  // namespace ebbtide::scheduler
