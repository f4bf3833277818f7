// Per value of a graph, the last op that reads it; kNone: none does.
#pragma once

#include <cstddef>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"

namespace ebbtide::scheduler {

inline std::vector<OpId> lastReads(const Graph& graph) {
  std::vector<OpId> last(graph.values.size(), kNone);
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    for (const ValueId v : graph.ops[op].inputs) last[v] = static_cast<OpId>(op);
  }
  return last;
}

}  // namespace ebbtide::scheduler
