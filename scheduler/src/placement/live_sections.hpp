// Time cut where the set of live buffers cannot grow any more: each section stands for one maximal
// set, in the order of time. Two buffers overlap in time exactly if they share a section, and each
// buffer is in consecutive ones.
#pragma once

#include <vector>

#include "ebbtide/scheduler/placement.hpp"

namespace ebbtide::scheduler {

struct LiveSpan {
  std::int32_t first = 0, end = 0;  // alive in the sections [first, end)
  Bytes bytes = 0;                  // rounded up to the alignment, more than 0
  std::int64_t lifetime = 0;        // in the problem's time
};

struct LiveSections {
  std::vector<LiveSpan> spans;      // of the buffers given
  std::vector<std::int32_t> first;  // go first, in this order
  std::vector<Bytes> load;          // of each section
  Bytes load_bytes = 0;             // the largest

  std::int32_t count() const { return static_cast<std::int32_t>(load.size()); }
};

// Of a checked problem's buffers with the numbers in `which`.
LiveSections liveSections(const PlacementProblem& problem, const std::vector<std::int32_t>& which);

}  // namespace ebbtide::scheduler
