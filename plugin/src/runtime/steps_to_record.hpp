// StepsToRecord: how many of the next steps are recorded. Torch-free; whoever has it guards it.
//
// A step that spills unrecorded, of a program that nobody knows, is watched for until it returns:
// in 100 steps, then in twice as many each time that it did not in these, so that no more than
// twice the steps between two of them are recorded.
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
