// Path decompositions (kumar2019, section 5 and appendix A): tree decompositions whose tree is a
// path. Each node lies in consecutive bags.
#pragma once

#include <vector>

#include "planners/treewidth/tree_decomposition.hpp"

namespace ebbtide::scheduler {

struct PathDecomposition {
  std::vector<std::vector<std::int32_t>> bags;  // in path order, each increasing
  std::size_t width() const;                    // the largest bag's size less one, 0 if none
};

// The first and the last bag of each node.
struct BagSpan {
  std::int32_t first = 0, last = -1;
};
std::vector<BagSpan> bagSpans(const PathDecomposition& path, std::size_t nodes);

// Bags from an order of the nodes: each with the nodes before it that have neighbours from it on.
// Nested bags are merged.
PathDecomposition pathFromOrder(const Neighbours& graph, const std::vector<std::int32_t>& order);

// Exact by dynamic programming over sets for at most kMostExactNodes nodes; else the best of
// program order and of greedy orders, which from several starts take the node that leaves the
// fewest open.
PathDecomposition pathDecomposition(const Neighbours& graph);

// Theorem 8: an order of the nodes, each after those `before` it, such that consecutive nodes share
// a bag of the decomposition, whose bags grow from k + 1 to at most 2k + 3 nodes.
std::vector<std::int32_t> addSpine(const std::vector<std::vector<std::int32_t>>& before,
                                   PathDecomposition& path);

}  // namespace ebbtide::scheduler
