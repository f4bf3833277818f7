// ExitSignal: SIGTERM, of a scheduler that ends a job (Slurm, Kubernetes, `timeout`), where nobody
// else handles it. Files are left as at a program's end, and the process ends by the signal as it
// would have without us. Torch-free.
//
//   handler ── a byte ──► thread: leave(), at most kMostWait ──► default action, raised again
#pragma once

#include <chrono>
#include <functional>

namespace ebbtide::plugin {

class ExitSignal {
 public:
  static constexpr auto kMostWait = std::chrono::seconds(2);

  // Once a process; `leave` is called on a thread of its own, at most once. False: somebody handles
  // or ignores the signal already, or there is no descriptor or thread left. Whoever sets a handler
  // later takes its place. A forked child ends by the signal at once.
  static bool install(std::function<void()> leave);

  // Where a handler of the program's has been given up since, ours is there again. Nothing where
  // install() was not called. One system call.
  static void takeBack() noexcept;
};

}  // namespace ebbtide::plugin
