// What orders of nodes by subsets (dynamic programs over all of them) have in common: at most 32
// nodes, a set of them is the bits of a number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/neighbours.hpp"

namespace ebbtide::scheduler {

// Of each node the set of its neighbours.
inline std::vector<std::uint32_t> neighbourSets(const Neighbours& graph) {
  std::vector<std::uint32_t> adjacent(graph.size(), 0);
  for (std::size_t v = 0; v < graph.size(); ++v) {
    for (const auto w : graph[v]) adjacent[v] |= 1U << w;
  }
  return adjacent;
}

// `last`: of each set the node that comes last in the best order of it.
inline std::vector<std::int32_t> orderBy(const std::vector<std::uint8_t>& last, std::size_t nodes) {
  std::vector<std::int32_t> order(nodes);
  auto set = static_cast<std::uint32_t>(last.size() - 1);
  for (std::size_t i = nodes; i-- > 0;) {
    order[i] = last[set];
    set &= ~(1U << last[set]);
  }
  return order;
}

}  // namespace ebbtide::scheduler
