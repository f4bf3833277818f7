#include "planners/treewidth/tree_decomposition.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <stdexcept>
#include <tuple>

#include "planners/treewidth/subset_order.hpp"

namespace ebbtide::scheduler {
namespace {

using Node = std::int32_t;

constexpr std::size_t kMostExactFill = 48;  // neighbours of a node whose fill-in is counted

void insertSorted(std::vector<Node>& list, Node node) {
  const auto at = std::lower_bound(list.begin(), list.end(), node);
  if (at == list.end() || *at != node) list.insert(at, node);
}

void eraseSorted(std::vector<Node>& list, Node node) {
  const auto at = std::lower_bound(list.begin(), list.end(), node);
  if (at != list.end() && *at == node) list.erase(at);
}

bool contains(const std::vector<Node>& list, Node node) {
  return std::binary_search(list.begin(), list.end(), node);
}

// The graph that is left while nodes are eliminated.
class Elimination {
 public:
  explicit Elimination(Neighbours graph) : left_(std::move(graph)) {}

  const std::vector<Node>& neighbours(Node node) const { return left_[node]; }

  std::int64_t fill(Node node) const {
    const auto& around = left_[node];
    const auto degree = static_cast<std::int64_t>(around.size());
    if (around.size() > kMostExactFill) return degree * (degree - 1) / 2;
    std::int64_t missing = 0;
    for (std::size_t i = 0; i < around.size(); ++i) {
      for (std::size_t j = i + 1; j < around.size(); ++j) {
        const bool shorter = left_[around[i]].size() < left_[around[j]].size();
        const Node from = around[shorter ? i : j], to = around[shorter ? j : i];
        if (!contains(left_[from], to)) ++missing;
      }
    }
    return missing;
  }

  // Makes the neighbours a clique and takes the node out. Adds nodes whose fill-in may be another
  // now: the neighbours, and, among few, what lies beside both ends of a new edge.
  void eliminate(Node node, std::vector<Node>& changed) {
    const std::vector<Node> around = std::move(left_[node]);
    left_[node].clear();
    for (Node one : around) eraseSorted(left_[one], node);
    for (std::size_t i = 0; i < around.size(); ++i) {
      for (std::size_t j = i + 1; j < around.size(); ++j) {
        if (contains(left_[around[i]], around[j])) continue;
        if (around.size() <= kMostExactFill) {
          std::set_intersection(left_[around[i]].begin(), left_[around[i]].end(),
                                left_[around[j]].begin(), left_[around[j]].end(),
                                std::back_inserter(changed));
        }
        insertSorted(left_[around[i]], around[j]);
        insertSorted(left_[around[j]], around[i]);
      }
    }
    changed.insert(changed.end(), around.begin(), around.end());
  }

 private:
  Neighbours left_;
};

}  // namespace

std::size_t TreeDecomposition::width() const {
  std::size_t most = 1;
  for (const auto& bag : bags) most = std::max(most, bag.size());
  return most - 1;
}

std::vector<Node> minFillOrder(const Neighbours& graph) {
  Elimination elimination(graph);
  using Entry = std::tuple<std::int64_t, std::size_t, Node>;  // fill-in, degree, node
  std::vector<Entry> present(graph.size());
  std::set<Entry> queue;
  const auto entry = [&](Node node) {
    return Entry{elimination.fill(node), elimination.neighbours(node).size(), node};
  };
  for (std::size_t i = 0; i < graph.size(); ++i) {
    queue.insert(present[i] = entry(static_cast<Node>(i)));
  }
  std::vector<Node> order, changed;
  while (!queue.empty()) {
    const Node node = std::get<2>(*queue.begin());
    queue.erase(queue.begin());
    order.push_back(node);
    changed.clear();
    elimination.eliminate(node, changed);
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    for (Node other : changed) {
      const Entry now = entry(other);
      if (now == present[other]) continue;
      queue.erase(present[other]);
      queue.insert(present[other] = now);
    }
  }
  return order;
}

// Bodlaender and others, "On exact algorithms for treewidth", 2006: the least width of an order
// that begins with the set S is the least over its last node v of max(S - v, nodes beyond S that v
// reaches through S).
std::vector<Node> exactOrder(const Neighbours& graph) {
  const std::size_t n = graph.size();
  if (n > kMostExactNodes) throw std::invalid_argument("too many nodes for an exact width");
  const std::vector<std::uint32_t> adjacent = neighbourSets(graph);
  const auto degree = [&](std::uint32_t through, std::size_t v) {
    std::uint32_t seen = 1U << v, open = seen;
    while (open != 0) {
      const auto next = static_cast<std::size_t>(std::countr_zero(open));
      open &= open - 1;
      const std::uint32_t found = adjacent[next] & ~seen;
      seen |= found;
      open |= found & through;
    }
    return static_cast<std::uint8_t>(std::popcount(seen & ~through) - 1);
  };
  std::vector<std::uint8_t> width(std::size_t{1} << n, 0), last(std::size_t{1} << n, 0);
  for (std::uint32_t set = 1; set < width.size(); ++set) {
    width[set] = std::numeric_limits<std::uint8_t>::max();
    for (std::uint32_t rest = set; rest != 0; rest &= rest - 1) {
      const auto v = static_cast<std::size_t>(std::countr_zero(rest));
      const std::uint32_t before = set & ~(1U << v);
      if (width[before] >= width[set]) continue;
      const std::uint8_t here = std::max(width[before], degree(before, v));
      if (here >= width[set]) continue;
      width[set] = here;
      last[set] = static_cast<std::uint8_t>(v);
    }
  }
  return orderBy(last, n);
}

TreeDecomposition decompose(const Neighbours& graph, const std::vector<Node>& order) {
  Elimination elimination(graph);
  std::vector<std::size_t> turn(graph.size());
  for (std::size_t i = 0; i < order.size(); ++i) turn[order[i]] = i;
  TreeDecomposition result;
  result.bags.resize(order.size());
  result.tree.resize(order.size());
  std::vector<Node> changed;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::vector<Node> later = elimination.neighbours(order[i]);
    result.bags[i] = later;
    insertSorted(result.bags[i], order[i]);
    // The bag of the neighbour whose turn comes next holds the others; with none left, any bag.
    std::size_t parent = later.empty() ? i + 1 : order.size();
    for (Node node : later) parent = std::min(parent, turn[node]);
    if (parent < order.size()) {
      result.tree[i].push_back(static_cast<Node>(parent));
      result.tree[parent].push_back(static_cast<Node>(i));
    }
    elimination.eliminate(order[i], changed);
    changed.clear();
  }
  return result;
}

TreeDecomposition mergeNestedBags(const TreeDecomposition& decomposition) {
  const std::size_t count = decomposition.bags.size();
  std::vector<Node> merged(count);
  std::iota(merged.begin(), merged.end(), 0);
  std::vector<std::vector<Node>> bags = decomposition.bags;
  const auto find = [&](Node bag) {
    while (merged[bag] != bag) bag = merged[bag] = merged[merged[bag]];
    return bag;
  };
  std::vector<std::pair<Node, Node>> kept;
  for (std::size_t i = 0; i < count; ++i) {
    for (Node other : decomposition.tree[i]) {
      if (other < static_cast<Node>(i)) continue;
      Node large = find(static_cast<Node>(i)), small = find(other);
      if (bags[large].size() < bags[small].size()) std::swap(large, small);
      if (std::includes(bags[large].begin(), bags[large].end(), bags[small].begin(),
                        bags[small].end())) {
        merged[small] = large;
      } else {
        kept.emplace_back(static_cast<Node>(i), other);
      }
    }
  }
  TreeDecomposition result;
  std::vector<Node> number(count, -1);
  for (std::size_t i = 0; i < count; ++i) {
    if (find(static_cast<Node>(i)) != static_cast<Node>(i)) continue;
    number[i] = static_cast<Node>(result.bags.size());
    result.bags.push_back(std::move(bags[i]));
  }
  result.tree.resize(result.bags.size());
  for (const auto& [one, other] : kept) {
    const Node a = number[find(one)], b = number[find(other)];
    result.tree[a].push_back(b);
    result.tree[b].push_back(a);
  }
  return result;
}

TreeDecomposition treeDecomposition(const Neighbours& graph) {
  const bool small = graph.size() <= kMostExactNodes;
  return mergeNestedBags(decompose(graph, small ? exactOrder(graph) : minFillOrder(graph)));
}

}  // namespace ebbtide::scheduler
