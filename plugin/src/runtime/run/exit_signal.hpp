// ExitSignal: SIGTERM, of a scheduler that ends a job (Slurm, Kubernetes, `timeout`), where nobody
// else handles it. Files are left as at a program's end, and the process ends by the signal as it
// would have without us. Torch-free.
//
//   handler ── a byte ──► thread: leave(), at most most_wait ──► default action, raised again
#pragma once

#include <chrono>
#include <functional>

namespace ebbtide::plugin {

class ExitSignal {
 public:
  // Below the 10 s after which Docker kills; Slurm and Kubernetes kill after 30 s.
  static constexpr auto kMostWait = std::chrono::seconds(5);

  // Once a process. The signal calls `leave` on a thread of its own, at most once, and waits for it
  // up to `most_wait`. False: the signal is handled or ignored already, or no descriptor or thread
  // is left. A handler that is set later takes its place. A forked child ends by the signal at
  // once.
  static bool install(std::function<void()> leave, std::chrono::milliseconds most_wait = kMostWait);

  // Where a handler of the program's has been given up since, ours is there again. Nothing where
  // install() was not called. One system call.
  static void takeBack() noexcept;
};

}  // namespace ebbtide::plugin
