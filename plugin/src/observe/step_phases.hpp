// StepPhases: what a step is in: it waits for its first op, runs forward, runs backward, is over.
//
//   paused ── resume() ─► forward ── noteBackward() ─► paused ── resume() ─► forward … finish()
//
// Thread rule: any thread; one at a time begins and ends phases by resume() and finish().
// Torch-free.
#pragma once

#include <atomic>
#include <cstdint>

#include "observe/traced_step.hpp"

namespace ebbtide::plugin {

class StepPhases {
 public:
  StepPhases(RunTrace& trace, std::int64_t number) : traced_(trace, number) {}

  // Recording waits for the first op that touches something trained: what comes before prepares
  // data.
  bool paused() const noexcept { return paused_; }
  void resume() noexcept {
    if (!paused_.exchange(false)) return;
    ++forward_phases_;
    traced_.noteForward();
  }
  int forwardPhases() const noexcept { return forward_phases_; }

  bool noteBackward() noexcept {   // something runs backward. True: the first that does
    if (!paused_) paused_ = true;  // most often it is noted, and need not be written
    traced_.noteBackward();
    return !backward_seen_ && !backward_seen_.exchange(true);
  }
  bool backwardSeen() const noexcept { return backward_seen_; }
  // A node of that pass runs. True: the pass begins: passes count upwards.
  bool beginsPass(int pass) noexcept {
    int known = backward_pass_;
    while (pass > known && !backward_pass_.compare_exchange_weak(known, pass)) {
    }
    return pass > known;
  }

  void endTraced() noexcept { traced_.end(backward_seen_); }
  void finish(bool by_hint) noexcept { finished_by_hint_ = by_hint, finished_ = true; }
  bool finished() const noexcept { return finished_; }
  bool finishedByHint() const noexcept { return finished_by_hint_; }

 private:
  static constexpr int kNoPass = -1;

  TracedStep traced_;
  std::atomic<bool> paused_{true};
  std::atomic<int> forward_phases_{0};
  std::atomic<bool> backward_seen_{false};
  std::atomic<int> backward_pass_{kNoPass};  // the last one that began
  std::atomic<bool> finished_{false}, finished_by_hint_{false};
};

}  // namespace ebbtide::plugin
