// RunLife: how far a run is, from its first training op to the process's end, whether it is visible
// from outside, and what a fork makes of it. Torch-free.
//
//   loaded ─► wakes ─► awake ─► steps … ─► ends
//   forked before it wakes: shows once it trains; after that: inert
//
// Thread rule: the atomics from any thread; `ends` is set with the session's guard held; `forked`
// in a fork's child, while it has one thread.
#pragma once

#include <atomic>
#include <mutex>

namespace ebbtide::plugin {

struct RunLife {
  // Of the process: forked after its parent's training began. It is inert, whatever it does. A
  // child of a parent that had not is like any process that has not begun to train.
  static bool inChild() noexcept { return in_child_.load(std::memory_order_relaxed); }
  void noteForked() noexcept {  // in the child
    if (wakes)
      in_child_ = true;
    else
      forked = true;
  }

  std::once_flag woken, shown;
  std::atomic<bool> wakes{false}, awake{false};
  bool forked = false;            // from a process that had not begun to train
  std::atomic<bool> shows{true};  // by a line, a port, a report; a forked child: once it trains
  std::atomic<bool> ends{false};  // nothing is planned or taken any more
  int threads = 1;                // that one op uses; set when the run wakes

 private:
  static inline std::atomic<bool> in_child_{false};
};

}  // namespace ebbtide::plugin
