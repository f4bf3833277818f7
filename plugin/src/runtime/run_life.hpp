// RunLife: how far a run is, from its first training op to the process's end, and whether it is
// visible from outside. Torch-free.
//
//   loaded ─► wakes ─► awake ─► steps … ─► ends
//   forked before it wakes: shows once it trains
//
// Thread rule: the atomics from any thread; `ends` is set with the session's guard held; `forked`
// in a fork's child, while it has one thread.
#pragma once

#include <atomic>
#include <mutex>

namespace ebbtide::plugin {

struct RunLife {
  std::once_flag woken, shown;
  std::atomic<bool> wakes{false}, awake{false};
  bool forked = false;            // from a process that had not begun to train
  std::atomic<bool> shows{true};  // by a line, a port, a report; a forked child: once it trains
  std::atomic<bool> ends{false};  // nothing is planned or taken any more
  int threads = 1;                // that one op uses; set when the run wakes
};

}  // namespace ebbtide::plugin
