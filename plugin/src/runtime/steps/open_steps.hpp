// OpenSteps: which steps are open, and from when on a step is a word on the budget in force.
//
//   thread 1  ├──── A ────┤├──── C ────┤├── E ──┤
//   thread 2      ├───── B ─────┤├── D ──┤
//                          ▲    ▲       ▲
//             another budget    │       C, which ran beside B, is over: E tells, and so would D
//                               B, which began under the older one, is over
//
// A step that began under an older budget follows no plan of the new one, and fragments memory for
// the steps beside it. No step is judged by the new budget until it is over. Torch-free; whoever
// has it guards it.
#pragma once

#include <cstdint>
#include <vector>

namespace ebbtide::plugin {

class OpenSteps {
 public:
  using Number = std::uint64_t;  // of a step that began, from 1

  // Steps that end meanwhile: then those that are waited for rest. What they hold stays, as
  // parameters do.
  static constexpr int kMostEnds = 32;

  Number begin();
  // Another budget holds for the steps that begin from now on.
  void changeBudget();
  // True: from now on steps tell, by what happens from now on.
  bool end(Number step);

  bool any() const { return !open_.empty(); }
  bool settled() const { return !awaits_; }
  // Did it begin beside none of an older budget, and has what ran beside those ended?
  bool tells(Number step) const { return settled() && step >= first_; }

 private:
  bool awaitNeighbours();

  Number last_ = 0;   // that began
  Number first_ = 0;  // that began beside none of the older ones
  std::vector<Number> open_;
  bool awaits_ = false;
  std::vector<Number> awaited_;  // the older ones, then those that ran beside them
  bool neighbours_ = false;      // which of both
  int ends_ = 0;
};

}  // namespace ebbtide::plugin
