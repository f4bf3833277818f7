// Tree decompositions of undirected graphs (kumar2019, section 2.2): bags of nodes joined by a
// tree, so that each edge lies in some bag and the bags of each node are connected.
#pragma once

#include <cstdint>
#include <vector>

#include "base/neighbours.hpp"

namespace ebbtide::scheduler {

struct TreeDecomposition {
  std::vector<std::vector<std::int32_t>> bags;  // each increasing
  Neighbours tree;                              // of bags; connected
  std::size_t width() const;                    // the largest bag's size less one, 0 if none
};

// The order in which to eliminate nodes: least fill-in first, where a node's fill-in is the number
// of edges missing between its neighbours. Nodes of very many neighbours count as if all were.
std::vector<std::int32_t> minFillOrder(const Neighbours& graph);

// Of least width, by dynamic programming over sets of nodes: 2^n entries. At most kMostExactNodes.
inline constexpr std::size_t kMostExactNodes = 15;
std::vector<std::int32_t> exactOrder(const Neighbours& graph);

// Bags from an elimination order: a node with the neighbours that are left when its turn comes.
TreeDecomposition decompose(const Neighbours& graph, const std::vector<std::int32_t>& order);

// Merges adjacent bags where one holds the other (Lemma 1): at most as many bags as nodes.
TreeDecomposition mergeNestedBags(const TreeDecomposition& decomposition);

// Exact for small graphs, else by least fill-in; bags merged.
TreeDecomposition treeDecomposition(const Neighbours& graph);

}  // namespace ebbtide::scheduler
