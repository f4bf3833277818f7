// A spine for a path decomposition, as Algorithm 2 of kumar2019, appendix A.1, but in another
// order. The paper recurses depth first and orders the followers of one node by their right
// endpoints; the path may then end in a node whose bags all lie to the right of the next
// follower's, which the extensions to the right do not join. Here of all nodes that are ready the
// one whose last bag comes first is next:
//
//   A step from x to y without a common bag leads to the right, for what lies left of x's last bag
//   could not become ready by x. x is then held up to y's first bag. For a bag B on the way nothing
//   left of B is ready, nor will be before a node of B itself comes. So B is passed at most once
//   more than it has nodes: bags of k + 1 nodes grow to at most 2k + 3, the bound of Theorem 8.
#include <functional>
#include <queue>
#include <utility>

#include "planners/treewidth/path_decomposition.hpp"

namespace ebbtide::scheduler {

using Node = std::int32_t;

std::vector<Node> addSpine(const std::vector<std::vector<Node>>& before, PathDecomposition& path) {
  const std::size_t nodes = before.size();
  const std::vector<BagSpan> spans = bagSpans(path, nodes);
  std::vector<std::vector<Node>> followers(nodes);
  std::vector<std::size_t> waits(nodes);        // for how many nodes
  using Ready = std::pair<std::int32_t, Node>;  // last bag, node
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (std::size_t node = 0; node < nodes; ++node) {
    waits[node] = before[node].size();
    for (Node other : before[node]) followers[other].push_back(static_cast<Node>(node));
    if (waits[node] == 0) ready.emplace(spans[node].last, static_cast<Node>(node));
  }
  std::vector<Node> spine;
  std::vector<BagSpan> longer = spans;
  while (!ready.empty()) {
    const Node node = ready.top().second;
    ready.pop();
    if (!spine.empty() && longer[spine.back()].last < spans[node].first) {
      longer[spine.back()].last = spans[node].first;
    }
    spine.push_back(node);
    for (Node follower : followers[node]) {
      if (--waits[follower] == 0) ready.emplace(spans[follower].last, follower);
    }
  }
  for (auto& bag : path.bags) bag.clear();
  for (std::size_t node = 0; node < nodes; ++node) {
    for (std::int32_t bag = longer[node].first; bag <= longer[node].last; ++bag) {
      path.bags[bag].push_back(static_cast<Node>(node));
    }
  }
  return spine;
}

}  // namespace ebbtide::scheduler
