// SearchPace: how much time a search may take, by another clock than the wall clock (processor
// time, say). It may also make the search wait.
//
// Thread rule: called by the thread that searches.
#pragma once

#include <chrono>

namespace ebbtide::scheduler {

class SearchPace {
 public:
  virtual ~SearchPace() = default;
  // A search begins, and may take so long. A plan may need several searches, one after the other.
  virtual void begin(std::chrono::nanoseconds longest) = 0;
  // Is the search's time over? Asked often, so it must be quick. Waits where the search may only
  // go on later.
  virtual bool isOver() = 0;
};

}  // namespace ebbtide::scheduler
