// SearchPace: how much time a search may take, where that is not the wall clock's: processor time,
// say. It may also hold the search up.
//
// Thread rule: of the thread that searches.
#pragma once

#include <chrono>

namespace ebbtide::scheduler {

class SearchPace {
 public:
  virtual ~SearchPace() = default;
  // A search begins. A plan may take several, one after the other, each for so long.
  virtual void begin(std::chrono::nanoseconds longest) = 0;
  // Asked now and then, and must be quick. Is its time over? Waits where it is to go on later.
  virtual bool isOver() = 0;
};

}  // namespace ebbtide::scheduler
