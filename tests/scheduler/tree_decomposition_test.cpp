#include "planners/treewidth/tree_decomposition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "planners/baselines/articulation.hpp"
#include "planners/treewidth/op_order.hpp"
#include "planners/treewidth/separator_tree.hpp"
#include "unit_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

using Node = std::int32_t;

Neighbours fromEdges(std::size_t nodes, const std::vector<std::pair<Node, Node>>& edges) {
  Neighbours graph(nodes);
  for (const auto& [a, b] : edges) {
    graph[a].push_back(b);
    graph[b].push_back(a);
  }
  for (auto& list : graph) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return graph;
}

Neighbours randomNeighbours(std::uint64_t seed, std::size_t nodes, std::size_t edges) {
  std::mt19937_64 random(seed);
  std::vector<std::pair<Node, Node>> list;
  for (std::size_t i = 0; i < edges; ++i) {
    const auto a = static_cast<Node>(random() % nodes), b = static_cast<Node>(random() % nodes);
    if (a != b) list.emplace_back(a, b);
  }
  return fromEdges(nodes, list);
}

Neighbours grid(Node rows, Node columns) {
  std::vector<std::pair<Node, Node>> edges;
  for (Node i = 0; i < rows; ++i) {
    for (Node j = 0; j < columns; ++j) {
      if (j > 0) edges.emplace_back(i * columns + j, i * columns + j - 1);
      if (i > 0) edges.emplace_back(i * columns + j, i * columns + j - columns);
    }
  }
  return fromEdges(static_cast<std::size_t>(rows * columns), edges);
}

// The three properties of section 2.2, and that the bags form one tree.
void expectValid(const Neighbours& graph, const TreeDecomposition& decomposition) {
  std::size_t tree_edges = 0;
  for (const auto& list : decomposition.tree) tree_edges += list.size();
  ASSERT_EQ(tree_edges, 2 * (std::max<std::size_t>(decomposition.bags.size(), 1) - 1));
  std::vector<std::size_t> bags(graph.size(), 0), shared(graph.size(), 0);
  std::vector<std::vector<bool>> together(graph.size(), std::vector<bool>(graph.size(), false));
  for (std::size_t i = 0; i < decomposition.bags.size(); ++i) {
    const auto& bag = decomposition.bags[i];
    ASSERT_TRUE(std::is_sorted(bag.begin(), bag.end()));
    for (Node a : bag) {
      ++bags[a];
      for (Node b : bag) together[a][b] = true;
    }
    for (Node other : decomposition.tree[i]) {
      const auto& next = decomposition.bags[other];
      for (Node a : bag) shared[a] += std::binary_search(next.begin(), next.end(), a) ? 1 : 0;
    }
  }
  for (std::size_t a = 0; a < graph.size(); ++a) {
    // A node's bags are a subtree if they are joined by one edge less.
    EXPECT_EQ(shared[a], 2 * (bags[a] - 1));
    for (Node b : graph[a]) EXPECT_TRUE(together[a][b]);
  }
}

std::size_t leastWidthOfAnyOrder(const Neighbours& graph) {
  std::vector<Node> order(graph.size());
  std::iota(order.begin(), order.end(), 0);
  std::size_t least = graph.size();
  do {
    least = std::min(least, decompose(graph, order).width());
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(TreeDecomposition, IsValidAndHasAtMostABagANode) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const std::size_t nodes = 1 + seed;
    const Neighbours graph = randomNeighbours(seed, nodes, nodes * (1 + seed % 4));
    expectValid(graph, decompose(graph, minFillOrder(graph)));
    const TreeDecomposition merged = treeDecomposition(graph);
    expectValid(graph, merged);
    EXPECT_LE(merged.bags.size(), nodes);  // Lemma 1
    // Merging neither widens nor narrows.
    const TreeDecomposition least_fill = decompose(graph, minFillOrder(graph));
    EXPECT_EQ(mergeNestedBags(least_fill).width(), least_fill.width());
  }
}

TEST(TreeDecomposition, KnowsWidths) {
  EXPECT_EQ(treeDecomposition({}).width(), 0U);
  EXPECT_EQ(treeDecomposition(grid(1, 12)).width(), 1U);  // a path
  EXPECT_EQ(treeDecomposition(fromEdges(4, {{0, 1}, {1, 2}, {2, 3}, {3, 0}})).width(), 2U);
  EXPECT_EQ(treeDecomposition(grid(3, 5)).width(), 3U);  // a grid's is its shorter side
  std::vector<std::pair<Node, Node>> clique, sides;
  for (Node a = 0; a < 7; ++a) {
    for (Node b = 0; b < a; ++b) clique.emplace_back(a, b);
  }
  EXPECT_EQ(treeDecomposition(fromEdges(7, clique)).width(), 6U);
  for (Node a = 0; a < 3; ++a) {
    for (Node b = 3; b < 8; ++b) sides.emplace_back(a, b);
  }
  EXPECT_EQ(treeDecomposition(fromEdges(8, sides)).width(), 3U);  // K(3,5): the smaller side
}

TEST(TreeDecomposition, IsExactOnSmallGraphs) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Neighbours graph = randomNeighbours(seed, 3 + seed % 5, 4 + seed % 9);
    const std::size_t exact = decompose(graph, exactOrder(graph)).width();
    EXPECT_EQ(exact, leastWidthOfAnyOrder(graph)) << seed;
    EXPECT_LE(exact, decompose(graph, minFillOrder(graph)).width()) << seed;
  }
}

TEST(TreeDecomposition, OfTenThousandNodesIsNarrow) {
  // Forward and backward chains with rungs, each gradient reading its op's input: triangles in a
  // row, so 2.
  const auto width = [](const Graph& graph) {
    return treeDecomposition(OpOrder(graph).neighbours()).width();
  };
  EXPECT_EQ(width(unitTrainingChain(5000)), 2U);
  EXPECT_EQ(width(unitTree(13)), 1U);
  // Two such rows (down, up) and their gradients; the skips join them. Least fill-in is a
  // heuristic: 4 nodes cross any cut between levels, and it takes few more.
  EXPECT_LE(width(unitTrainingUNet(2500)), 8U);
}

TEST(SeparatorTree, HalvesTheBagsAndOwnsEachNodeOnce) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Neighbours graph = randomNeighbours(seed, 20 + seed, 30 + 2 * seed);
    const TreeDecomposition decomposition = treeDecomposition(graph);
    const SeparatorTree tree(decomposition);
    std::vector<int> owned(graph.size(), 0);
    std::vector<std::int32_t> open = {0};
    EXPECT_EQ(tree.part(0).bags, decomposition.bags.size());
    while (!open.empty()) {
      const std::int32_t id = open.back();
      open.pop_back();
      for (Node node : tree.part(id).separator) {
        ++owned[node];
        EXPECT_TRUE(tree.within(id, node));
      }
      for (std::int32_t child : tree.part(id).children) {
        EXPECT_LE(2 * tree.part(child).bags, tree.part(id).bags);  // Lemma 3
        open.push_back(child);
      }
    }
    EXPECT_EQ(std::count(owned.begin(), owned.end(), 1), static_cast<std::ptrdiff_t>(graph.size()));
  }
}

TEST(Articulation, AgreesWithRemovingEachNode) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const std::size_t nodes = 1 + seed % 15;
    const Neighbours graph = randomNeighbours(seed, nodes, nodes);
    const auto components = [&](Node without) {
      std::vector<bool> seen(nodes, false);
      int count = 0;
      for (std::size_t root = 0; root < nodes; ++root) {
        if (seen[root] || static_cast<Node>(root) == without) continue;
        ++count;
        std::vector<Node> open = {static_cast<Node>(root)};
        seen[root] = true;
        while (!open.empty()) {
          const Node node = open.back();
          open.pop_back();
          for (Node next : graph[node]) {
            if (seen[next] || next == without) continue;
            seen[next] = true;
            open.push_back(next);
          }
        }
      }
      return count;
    };
    const std::vector<bool> points = articulationPoints(graph);
    for (std::size_t node = 0; node < nodes; ++node) {
      EXPECT_EQ(points[node], components(static_cast<Node>(node)) > components(-1)) << seed;
    }
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
