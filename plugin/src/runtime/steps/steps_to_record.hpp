// StepsToRecord: how many of the next steps are recorded. Torch-free; whoever has it guards it.
//
// A step of an unknown program may spill while it is not recorded. Then the next 100 steps are
// recorded, until such a step returns. Each time that none returns, twice as many are recorded the
// next time. So at most twice the steps between two such steps are recorded.
#pragma once

#include <algorithm>

namespace ebbtide::plugin {

class StepsToRecord {
 public:
  bool any() const { return steps_ > 0; }
  void atLeast(int steps) { steps_ = std::max(steps_, steps); }
  void noteStep() {
    if (steps_ > 0) --steps_;
  }
  void watchForReturn() {
    steps_ = until_seen_;
    until_seen_ = std::min(2 * until_seen_, kMostUntilSeen);
  }
  void noteSeen() {
    steps_ = std::min(steps_, 2);
    until_seen_ = kUntilSeen;
  }

 private:
  static constexpr int kUntilSeen = 100;
  static constexpr int kMostUntilSeen = kUntilSeen << 20;

  int steps_ = 3;
  int until_seen_ = kUntilSeen;
};

}  // namespace ebbtide::plugin
