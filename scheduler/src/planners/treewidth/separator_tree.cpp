#include "planners/treewidth/separator_tree.hpp"

#include <algorithm>
#include <utility>

namespace ebbtide::scheduler {

SeparatorTree::SeparatorTree(const TreeDecomposition& decomposition)
    : removed_(decomposition.bags.size(), false), below_(decomposition.bags.size(), 0) {
  std::int32_t nodes = 0;
  for (const auto& bag : decomposition.bags) {
    if (!bag.empty()) nodes = std::max(nodes, bag.back() + 1);
  }
  owner_.assign(static_cast<std::size_t>(nodes), -1);
  if (!decomposition.bags.empty()) cut(decomposition, 0);
}

std::int32_t SeparatorTree::balancedBag(const TreeDecomposition& decomposition, std::int32_t bag,
                                        std::size_t& bags) {
  std::vector<std::pair<std::int32_t, std::int32_t>> order = {{bag, -1}};  // bag, parent
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto [here, parent] = order[i];
    below_[here] = 1;
    for (std::int32_t next : decomposition.tree[here]) {
      if (next != parent && !removed_[next]) order.emplace_back(next, here);
    }
  }
  bags = order.size();
  // From the leaves: the first bag with half of the bags below it.
  for (std::size_t i = order.size(); i-- > 0;) {
    const auto [here, parent] = order[i];
    if (2 * below_[here] >= bags) return here;
    below_[parent] += below_[here];
  }
  return bag;
}

// The recursion halves the bags: its depth is logarithmic.
std::int32_t SeparatorTree::cut(const TreeDecomposition& decomposition, std::int32_t bag) {
  const auto id = static_cast<std::int32_t>(parts_.size());
  parts_.emplace_back();
  std::size_t bags = 0;
  const std::int32_t middle = balancedBag(decomposition, bag, bags);
  removed_[middle] = true;
  parts_[id].bags = bags;
  for (std::int32_t node : decomposition.bags[middle]) {
    if (owner_[node] != -1) continue;
    owner_[node] = id;
    parts_[id].separator.push_back(node);
  }
  for (std::int32_t next : decomposition.tree[middle]) {
    if (removed_[next]) continue;
    const std::int32_t child = cut(decomposition, next);
    parts_[id].children.push_back(child);
  }
  parts_[id].end = static_cast<std::int32_t>(parts_.size());
  return id;
}

}  // namespace ebbtide::scheduler
