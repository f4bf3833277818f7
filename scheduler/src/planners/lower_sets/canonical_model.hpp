// The model of kusumoto2019 as a Graph, so that the simulator judges its strategies: the peak of a
// canonical strategy that drops at the ends of segments is that of formula (2).
//
//   ops     0 ... n-1: forward of node v      n ... 2n-1: backward of node v is op 2n-1-v
//   values  as the ops that make them: of v's forward M_v bytes, of its gradient M_v bytes
//
// The backward of v reads the gradients of its successors (term iii) and the forward values of all
// their predecessors, v among them (term iv); that of a node without successors its own value.
#pragma once

#include <optional>

#include "ebbtide/scheduler/graph.hpp"
#include "planners/lower_sets/lower_sets.hpp"

namespace ebbtide::scheduler {

// Forward ops may be run again, backward ops not; they take no time, since the paper counts none.
Graph canonicalGraph(const LowerSetProblem& problem);

// The problem whose canonicalGraph() is `graph`, apart from names and backward durations.
std::optional<LowerSetProblem> canonicalProblem(const Graph& graph);

}  // namespace ebbtide::scheduler
