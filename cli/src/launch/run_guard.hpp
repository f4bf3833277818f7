// The guard of a run: a process between the caller and the command. It outlives a caller that is
// killed (by the kernel's out-of-memory killer, say), and then ends all that the command started.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "launch/watched_run.hpp"

namespace ebbtide::cli {

inline constexpr char kGuardName[] =
    "ebbtide-guard";                                // to ps -o comm; its arguments are the caller's
inline constexpr std::size_t kMostAnswered = 4096;  // bytes: a pipe takes them whole

// In a forked child of a process with one thread.
// `caller`: a pipe that ends with the caller, read without waiting. A byte of it is a signal that
// the caller has noted.
// `answer`: takes the RunEnd, with exit status 0; the text of what cannot be started, with 1.
[[noreturn]] void guardRun(const WatchedCommand& command, std::optional<std::chrono::seconds> limit,
                           int caller, int answer) noexcept;

// Of a status as waitpid() gives it.
RunEnd endOf(int status);

}  // namespace ebbtide::cli
