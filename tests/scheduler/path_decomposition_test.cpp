#include "planners/treewidth/path_decomposition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "planners/treewidth/op_order.hpp"
#include "random_orders.hpp"

namespace ebbtide::scheduler {
namespace {

using Node = std::int32_t;

bool shareABag(const PathDecomposition& path, Node a, Node b) {
  return std::any_of(path.bags.begin(), path.bags.end(), [&](const auto& bag) {
    return std::binary_search(bag.begin(), bag.end(), a) &&
           std::binary_search(bag.begin(), bag.end(), b);
  });
}

void expectValid(const Neighbours& graph, const PathDecomposition& path) {
  const std::vector<BagSpan> spans = bagSpans(path, graph.size());
  std::vector<int> bags(graph.size(), 0);
  for (const auto& bag : path.bags) {
    ASSERT_TRUE(std::is_sorted(bag.begin(), bag.end()));
    for (Node node : bag) ++bags[node];
  }
  for (std::size_t a = 0; a < graph.size(); ++a) {
    ASSERT_GT(bags[a], 0);
    EXPECT_EQ(bags[a], spans[a].last - spans[a].first + 1);  // consecutive
    for (Node b : graph[a]) {
      const bool meet = spans[a].first <= spans[b].last && spans[b].first <= spans[a].last;
      EXPECT_TRUE(meet);
    }
  }
}

TEST(PathDecomposition, IsValidAndExactOnSmallGraphs) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Neighbours graph = OpOrder(randomOrderGraph(seed, 1 + seed % 7)).neighbours();
    const PathDecomposition path = pathDecomposition(graph);
    expectValid(graph, path);
    std::vector<Node> order(graph.size());
    std::iota(order.begin(), order.end(), 0);
    std::size_t least = graph.size();
    do {
      least = std::min(least, pathFromOrder(graph, order).width());
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(path.width(), least) << seed;
  }
}

TEST(PathDecomposition, KnowsWidths) {
  const auto width = [](const Graph& graph) {
    return pathDecomposition(OpOrder(graph).neighbours()).width();
  };
  // Complete binary trees of h + 1 levels have pathwidth ceil(h / 2).
  EXPECT_EQ(width(unitTree(2)), 1U);
  EXPECT_EQ(width(unitTree(3)), 1U);
  EXPECT_EQ(width(unitTree(4)), 2U);
  // Triangles in a row.
  EXPECT_EQ(width(unitTrainingChain(7)), 2U);
  EXPECT_EQ(width(unitTrainingChain(2000)), 2U);
}

TEST(PathDecomposition, IsValidOnLargerGraphs) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Neighbours graph = OpOrder(randomOrderGraph(seed, 20 + 10 * seed)).neighbours();
    const PathDecomposition path = pathDecomposition(graph);
    expectValid(graph, path);
    EXPECT_LE(path.bags.size(), graph.size());
  }
}

// Theorem 8: bags of k + 1 nodes become bags of at most 2k + 3, and the spine passes through all
// nodes in an order of the graph, each step within a bag.
TEST(Spine, DoublesTheBagsAtMost) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const Graph graph = seed % 2 == 0 ? randomGraphOfPathwidth(seed, 5 + seed, 1 + seed % 5, false)
                                      : randomOrderGraph(seed, 2 + seed % 50);
    const OpOrder order(graph);
    PathDecomposition path = pathDecomposition(order.neighbours());
    const std::size_t width = path.width();
    const std::vector<Node> spine = addSpine(order.before, path);
    expectValid(order.neighbours(), path);
    EXPECT_LE(path.width() + 1, 2 * width + 3) << seed;
    ASSERT_EQ(spine.size(), graph.ops.size()) << seed;
    std::vector<int> place(spine.size(), -1);
    for (std::size_t i = 0; i < spine.size(); ++i) place[spine[i]] = static_cast<int>(i);
    for (std::size_t node = 0; node < spine.size(); ++node) {
      for (OpId before : order.before[node]) EXPECT_LT(place[before], place[node]) << seed;
    }
    for (std::size_t i = 1; i < spine.size(); ++i) {
      EXPECT_TRUE(shareABag(path, spine[i - 1], spine[i])) << seed;
    }
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
