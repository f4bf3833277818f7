// OpPrecedence: which first runs come before which in every schedule of a graph, and a longest
// chain of ops whose order is thereby fixed.
#pragma once

#include <vector>

#include "ebbtide/scheduler/graph.hpp"

namespace ebbtide::scheduler {

class OpPrecedence {
 public:
  // Memory for ops² bits where the graph's ops run in any order.
  explicit OpPrecedence(const Graph& graph);

  bool before(OpId a, OpId b) const {
    return a < b &&
           (!any_order_ || needs_[static_cast<std::size_t>(b)][static_cast<std::size_t>(a)]);
  }
  // All ops in program order; where any order will do, a chain: each op needs the one before.
  const std::vector<OpId>& chain() const { return chain_; }

 private:
  bool any_order_;
  std::vector<std::vector<bool>> needs_;  // per op: the ops that it needs, at whatever distance
  std::vector<OpId> chain_;
};

}  // namespace ebbtide::scheduler
