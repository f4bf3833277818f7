// How much of a recorded step its thread had computed at an event.
#pragma once

#include <vector>

#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

// Messages and scopes say it. What lies between two of them is shared out by the clock, without
// what follows a receive up to the thread's next work. Before the first one and after the last one
// the clock runs at the rate of all between.
class BusyTime {
 public:
  explicit BusyTime(const Trace& trace);

  // Up to the event; events.size(): of the whole step.
  Nanoseconds at(std::size_t event) const { return busy_[event]; }
  // Does the event say it?
  bool isMark(std::size_t event) const { return marks_[event]; }

 private:
  std::vector<Nanoseconds> busy_;
  std::vector<bool> marks_;
};

}  // namespace ebbtide::scheduler
