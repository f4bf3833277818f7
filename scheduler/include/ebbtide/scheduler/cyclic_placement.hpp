// Placement of a step that repeats: time is a circle of `period`, and a buffer may live over its
// end, into the next round.
//
//   round ├────────────────────────┤ the next one ...
//       a ├──────┤     b ├─────────┼───┤     b is there when the next a comes, at the same offset
//
// The circle is cut where the fewest bytes live, and place() gets a line. What lives at the cut
// lies at the bottom, in the order of births, and what is free of it between its death and its next
// birth is for the others.
#pragma once

#include <optional>
#include <string>

#include "ebbtide/scheduler/placement.hpp"

namespace ebbtide::scheduler {

struct CyclicPlacementProblem {
  // lower in [0, period), upper at most lower + period.
  PlacementProblem problem;
  std::int64_t period = 0;
};

// Throws as place() does, and for lifetimes that are not in the circle.
Placement placeInCycle(const CyclicPlacementProblem& cycle, const PlacementOptions& options = {});
Bytes cyclicLoad(const CyclicPlacementProblem& cycle);

// As validate(), over two rounds.
std::optional<std::string> validateInCycle(const CyclicPlacementProblem& cycle,
                                           const Placement& placement);

}  // namespace ebbtide::scheduler
