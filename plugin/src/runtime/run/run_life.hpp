// RunLife: how far a run is, from its first training op to the process's end, whether it is visible
// from outside, and what a fork makes of it. Torch-free.
//
//   loaded ─► wakes ─► awake ─► steps … ─► ends ─► over
//   forked before it wakes: shows once it trains; after that: inert
//
// Thread rule: the atomics from any thread; `ends` is set with the session's guard held; `forked`
// in a fork's child, while it has one thread.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace ebbtide::plugin {

struct RunLife {
  // Of the process: forked after its parent's training began. It is inert, whatever it does. A
  // child of a parent that had not is like any process that has not begun to train.
  static bool inChild() noexcept { return in_child_.load(std::memory_order_relaxed); }
  // In the child, in which nobody is who was about to end the parent's run.
  void noteForked() noexcept {
    over = ends.load();
    if (wakes)
      in_child_ = true;
    else
      forked = true;
  }

  // For who is not the first one to end the run (an exit function, a signal's thread, a timer), and
  // may end the process then: the first one may be writing the report.
  void waitUntilOver(std::chrono::milliseconds most = std::chrono::seconds(10)) const noexcept {
    const auto limit = std::chrono::steady_clock::now() + most;
    while (!over && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  std::once_flag woken, shown;
  std::atomic<bool> wakes{false}, awake{false};
  bool forked = false;            // from a process that had not begun to train
  std::atomic<bool> shows{true};  // by a line, a port, a report; a forked child: once it trains
  std::atomic<bool> ends{false};  // nothing is planned or taken any more
  std::atomic<bool> over{false};  // all that the run leaves is written
  int threads = 1;                // that one op uses; set when the run wakes

 private:
  static inline std::atomic<bool> in_child_{false};
};

}  // namespace ebbtide::plugin
