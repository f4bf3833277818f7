// LateBackwards: saved tensors that were unpacked after their step had been ended, and what steps
// do from then on.
//
// Steps in which parameters are written while saved tensors are left (a GAN's generator waits for
// its discriminator) go on over updates. Where the program says what a step is, none goes on: it
// waits beside the next ones. Torch-free. Thread rule: any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace ebbtide::plugin {

class LateBackwards {
 public:
  void note(bool ended_by_hint) noexcept {
    ++count_;
    (ended_by_hint ? cross_hints_ : go_on_) = true;
  }
  // Some tensors are always left: nothing would ever end there.
  void giveUp() noexcept { go_on_ = false, never_ = true; }

  bool stepsGoOn() const noexcept { return go_on_ && !never_; }
  bool crossHints() const noexcept { return cross_hints_; }
  std::int64_t count() const noexcept { return count_; }

 private:
  std::atomic<bool> go_on_{false}, never_{false}, cross_hints_{false};
  std::atomic<std::int64_t> count_{0};
};

}  // namespace ebbtide::plugin
