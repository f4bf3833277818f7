#include "planners/treewidth/path_decomposition.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <limits>
#include <numeric>
#include <set>

#include "planners/treewidth/subset_order.hpp"

namespace ebbtide::scheduler {
namespace {

using Node = std::int32_t;

// The least vertex separation: over orders of the nodes the least number of placed nodes that have
// neighbours yet to be placed.
std::vector<Node> exactPathOrder(const Neighbours& graph) {
  const std::size_t n = graph.size();
  const std::vector<std::uint32_t> adjacent = neighbourSets(graph);
  std::vector<std::uint8_t> width(std::size_t{1} << n, 0), last(std::size_t{1} << n, 0);
  for (std::uint32_t set = 1; set < width.size(); ++set) {
    std::uint8_t open = 0;
    width[set] = std::numeric_limits<std::uint8_t>::max();
    for (std::uint32_t rest = set; rest != 0; rest &= rest - 1) {
      const auto v = static_cast<std::size_t>(std::countr_zero(rest));
      if ((adjacent[v] & ~set) != 0) ++open;
      if (width[set & ~(1U << v)] >= width[set]) continue;
      width[set] = width[set & ~(1U << v)];
      last[set] = static_cast<std::uint8_t>(v);
    }
    width[set] = std::max(width[set], open);
  }
  return orderBy(last, n);
}

constexpr std::size_t kMostCompared = 64;  // nodes for one place in an order

// Takes next, from the nodes beside those taken, the one that leaves the fewest taken nodes open.
// An open node has a neighbour that is not taken. Among equals it is the one that has been beside
// them longest or, depth first, shortest.
class GreedyOrder {
 public:
  GreedyOrder(const Neighbours& graph, bool depth_first)
      : graph_(graph),
        depth_first_(depth_first),
        left_(graph.size()),
        taken_(graph.size(), false),
        known_(graph.size(), false) {
    for (std::size_t v = 0; v < graph.size(); ++v) left_[v] = graph[v].size();
  }

  std::vector<Node> from(Node start) {
    take(start);
    for (std::size_t next = 0; order_.size() < graph_.size();) {
      if (beside_.empty()) {
        while (taken_[next]) ++next;
        take(static_cast<Node>(next));
        continue;
      }
      std::size_t best = 0;
      int least = std::numeric_limits<int>::max();
      for (std::size_t i = 0; i < std::min(beside_.size(), kMostCompared); ++i) {
        const std::size_t at = depth_first_ ? beside_.size() - 1 - i : i;
        const int opened = opens(beside_[at]);
        if (opened >= least) continue;
        least = opened;
        best = at;
      }
      const Node node = beside_[best];
      beside_.erase(beside_.begin() + static_cast<std::ptrdiff_t>(best));
      take(node);
    }
    return order_;
  }

 private:
  int opens(Node node) const {
    int change = left_[node] > 0 ? 1 : 0;
    for (Node other : graph_[node]) {
      if (taken_[other] && left_[other] == 1) --change;
    }
    return change;
  }

  void take(Node node) {
    taken_[node] = true;
    order_.push_back(node);
    for (Node other : graph_[node]) {
      --left_[other];
      if (taken_[other] || known_[other]) continue;
      known_[other] = true;
      beside_.push_back(other);
    }
    known_[node] = true;
  }

  const Neighbours& graph_;
  bool depth_first_;
  std::vector<std::size_t> left_;    // per node: neighbours not taken
  std::vector<bool> taken_, known_;  // known: taken or beside
  std::vector<Node> beside_, order_;
};

// The largest bag of pathFromOrder().
std::size_t largestBag(const Neighbours& graph, const std::vector<Node>& order) {
  std::vector<std::size_t> turn(graph.size()), closing(graph.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) turn[order[i]] = i;
  std::size_t open = 0, most = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::size_t last = i;
    for (Node other : graph[order[i]]) last = std::max(last, turn[other]);
    ++closing[last];
    most = std::max(most, ++open);
    open -= closing[i];
  }
  return most;
}

// One of the nodes farthest from the start.
Node farthest(const Neighbours& graph, Node start) {
  std::vector<bool> seen(graph.size(), false);
  std::deque<Node> open = {start};
  seen[start] = true;
  Node last = start;
  while (!open.empty()) {
    last = open.front();
    open.pop_front();
    for (Node next : graph[last]) {
      if (seen[next]) continue;
      seen[next] = true;
      open.push_back(next);
    }
  }
  return last;
}

}  // namespace

std::size_t PathDecomposition::width() const {
  std::size_t most = 1;
  for (const auto& bag : bags) most = std::max(most, bag.size());
  return most - 1;
}

std::vector<BagSpan> bagSpans(const PathDecomposition& path, std::size_t nodes) {
  std::vector<BagSpan> spans(nodes);
  for (std::size_t i = 0; i < path.bags.size(); ++i) {
    for (Node node : path.bags[i]) {
      if (spans[node].last == -1) spans[node].first = static_cast<std::int32_t>(i);
      spans[node].last = static_cast<std::int32_t>(i);
    }
  }
  return spans;
}

PathDecomposition pathFromOrder(const Neighbours& graph, const std::vector<Node>& order) {
  std::vector<std::size_t> turn(graph.size());
  for (std::size_t i = 0; i < order.size(); ++i) turn[order[i]] = i;
  PathDecomposition path;
  std::set<Node> open;
  std::vector<std::vector<Node>> closing(order.size());  // per turn: not beyond it
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::size_t last = i;
    for (Node other : graph[order[i]]) last = std::max(last, turn[other]);
    closing[last].push_back(order[i]);
    open.insert(order[i]);
    const std::vector<Node> bag(open.begin(), open.end());
    for (Node node : closing[i]) open.erase(node);
    if (!path.bags.empty()) {
      std::vector<Node>& before = path.bags.back();
      if (std::includes(before.begin(), before.end(), bag.begin(), bag.end())) continue;
      if (std::includes(bag.begin(), bag.end(), before.begin(), before.end())) path.bags.pop_back();
    }
    path.bags.push_back(bag);
  }
  return path;
}

PathDecomposition pathDecomposition(const Neighbours& graph) {
  if (graph.empty()) return {};
  if (graph.size() <= kMostExactNodes) return pathFromOrder(graph, exactPathOrder(graph));
  std::vector<Node> best(graph.size());
  std::iota(best.begin(), best.end(), 0);
  std::size_t least = largestBag(graph, best);
  const Node last = best.back();
  const Node far = farthest(graph, 0);
  for (Node start : std::set<Node>{0, last, far, farthest(graph, far)}) {
    for (bool depth_first : {false, true}) {
      std::vector<Node> order = GreedyOrder(graph, depth_first).from(start);
      const std::size_t bag = largestBag(graph, order);
      if (bag >= least) continue;
      least = bag;
      best = std::move(order);
    }
  }
  return pathFromOrder(graph, best);
}

}  // namespace ebbtide::scheduler
