// ForwardPhase: a maximal run of ops that are not backward, such as a microbatch's forward pass.
#pragma once

#include <vector>

#include "ebbtide/scheduler/graph.hpp"

namespace ebbtide::scheduler {

struct ForwardPhase {
  std::size_t begin = 0, end = 0;  // ops, the end excluded

  std::size_t size() const { return end - begin; }
  // False for kNone.
  bool holds(OpId op) const {
    const auto id = static_cast<std::size_t>(op);
    return begin <= id && id < end;
  }
};

// In program order.
std::vector<ForwardPhase> forwardPhases(const Graph& graph);

}  // namespace ebbtide::scheduler
