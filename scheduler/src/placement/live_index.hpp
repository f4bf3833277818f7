// Offsets taken, by the time at which they are: a tree over the sections. Neighbours are kept as
// one range, so a dense packing makes short lists whatever the number of buffers.
#pragma once

#include <limits>
#include <vector>

#include "placement/live_sections.hpp"

namespace ebbtide::scheduler {

struct Extent {
  Bytes offset = 0, top = 0;
};

inline constexpr Bytes kEndless = std::numeric_limits<Bytes>::max();

class LiveIndex {
 public:
  explicit LiveIndex(std::int32_t sections);

  // Takes the offsets in all sections [first, end): one section at least.
  void add(std::int32_t first, std::int32_t end, Extent extent);
  // Goes to the bottom of what is free in all sections [first, end).
  void startGaps(std::int32_t first, std::int32_t end);
  // The next gap above that has at least `bytes`; the last is endless. None of what startGaps()
  // looks at may have been changed since.
  Extent nextGap(Bytes bytes);

 private:
  // Disjoint, ordered, with gaps between them.
  using Ranges = std::vector<Extent>;
  struct Node {
    Ranges throughout;  // by buffers alive in the whole node, but not in the whole of its parent
    Ranges within;      // those, and by buffers alive in a part of the node
  };

  // The ranges of a node from the first one whose top is above gap_from_.
  struct Cursor {
    const Extent* next;
    const Extent* end;
  };

  static void unite(Ranges& ranges, Extent extent);

  std::int32_t leaves_;
  std::vector<Node> nodes_;  // 1 is the root, 2 i and 2 i + 1 the halves of i
  std::vector<Cursor> cursors_;
  Bytes gap_from_ = 0;
};

}  // namespace ebbtide::scheduler
