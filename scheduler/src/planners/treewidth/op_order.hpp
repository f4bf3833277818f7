// OpOrder: the computation graph of kumar2019 (section 2.1): a node per op, edges for what must
// come before.
#pragma once

#include <vector>

#include "ebbtide/scheduler/graph.hpp"

namespace ebbtide::scheduler {

struct OpOrder {
  // Per op: producers of values that it reads, increasing. In a recorded program backward events
  // follow each other, and ops after an event that read nothing made since follow it.
  std::vector<std::vector<OpId>> before;
  // What a schedule is asked to compute: ops that nothing follows.
  std::vector<OpId> targets;

  explicit OpOrder(const Graph& graph);
  std::size_t size() const { return before.size(); }
  // Neighbours without direction, increasing.
  std::vector<std::vector<OpId>> neighbours() const;
};

}  // namespace ebbtide::scheduler
