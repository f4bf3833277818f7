// Shared by dynamic programs over all subsets of nodes, which find an order of the nodes: at most
// 32 nodes, so a subset is the bits of a number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/neighbours.hpp"

namespace ebbtide::scheduler {

// For each node, the set of its neighbours.
inline std::vector<std::uint32_t> neighbourSets(const Neighbours& graph) {
  std::vector<std::uint32_t> adjacent(graph.size(), 0);
  for (std::size_t v = 0; v < graph.size(); ++v) {
    for (const auto w : graph[v]) adjacent[v] |= 1U << w;
  }
  return adjacent;
}

// `last`: for each set, the node that comes last in the set's best order.
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
