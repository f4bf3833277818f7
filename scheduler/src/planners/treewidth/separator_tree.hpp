// SeparatorTree: a tree decomposition cut at balanced separators (kumar2019, Lemma 3), and the
// pieces again, down to single bags. What Algorithm 1 recurses over, made once.
//
//   bags:   A - B - C - D - E          C
//                                  A - B   D - E      each holding the nodes of its separator
//                                  B       E          that no separator above holds
#pragma once

#include <vector>

#include "planners/treewidth/tree_decomposition.hpp"

namespace ebbtide::scheduler {

class SeparatorTree {
 public:
  struct Part {
    std::vector<std::int32_t> separator;  // nodes, increasing
    std::vector<std::int32_t> children;   // parts
    std::size_t bags = 0;                 // of this part and all below
    std::int32_t end = 0;                 // parts below are numbered from this one's next to here
  };

  explicit SeparatorTree(const TreeDecomposition& decomposition);

  bool empty() const { return parts_.empty(); }
  const Part& part(std::int32_t id) const { return parts_[id]; }  // 0: the root
  // Does the node lie in the part or below it?
  bool within(std::int32_t id, std::int32_t node) const {
    return owner_[node] >= id && owner_[node] < parts_[id].end;
  }

 private:
  std::int32_t cut(const TreeDecomposition& decomposition, std::int32_t bag);
  // The bag of the component of `bag` whose removal leaves at most half of it together.
  std::int32_t balancedBag(const TreeDecomposition& decomposition, std::int32_t bag,
                           std::size_t& bags);

  std::vector<Part> parts_;
  std::vector<std::int32_t> owner_;  // per node: its part
  std::vector<bool> removed_;        // per bag
  std::vector<std::size_t> below_;   // per bag: scratch, bags below it
};

}  // namespace ebbtide::scheduler
