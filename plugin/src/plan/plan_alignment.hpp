// PlanAlignment: which of a step's ops (or values, or uses) are its plan's, where the program does
// more than was planned.
//
// Both number them in program order. What comes between two planned ones has a number in the step
// and none in the plan; from there on the two differ. Without a plan none is planned. Torch-free.
// Thread rule: one thread adds; others read under its owner's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::plugin {

class PlanAlignment {
 public:
  using Id = std::int32_t;
  static constexpr Id kNone = scheduler::kNone;

  // Starts over, for a plan with as many.
  void expect(std::size_t planned);
  // The plan's that comes next; kNone: all have come.
  Id next() const noexcept {
    return steps_.size() < expected_ ? static_cast<Id>(steps_.size()) : kNone;
  }
  // How many of the plan's have come.
  Id come() const noexcept { return static_cast<Id>(steps_.size()); }
  // The step's next one. `planned`: it is next().
  void add(bool planned);
  // The last one was begun and is none after all.
  void removeLast();
  // Of those that the step has, from `first` on, none is the plan's.
  void unplanFrom(Id first);
  // One that was added as not planned is next() after all, and so are none after it.
  void adopt(Id step);

  Id planned(Id step) const noexcept {  // kNone: it is not
    return step < static_cast<Id>(planned_.size()) ? planned_[step] : kNone;
  }
  Id step(Id planned) const noexcept {  // kNone: it has not come yet
    return planned < static_cast<Id>(steps_.size()) ? steps_[planned] : kNone;
  }
  bool differs() const noexcept { return steps_.size() < planned_.size(); }

 private:
  std::size_t expected_ = 0;
  std::vector<Id> planned_;  // by the step's numbers
  std::vector<Id> steps_;    // by the plan's
};

}  // namespace ebbtide::plugin
