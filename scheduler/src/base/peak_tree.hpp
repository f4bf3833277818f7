// PeakTree: a level per position; adds to ranges and asks for the maximum in O(log positions).
#pragma once

#include <algorithm>
#include <vector>

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

class PeakTree {
 public:
  explicit PeakTree(const std::vector<Bytes>& levels);

  Bytes max() const { return max_[1]; }
  std::size_t argmax() const;
  // Adds to positions first ... last.
  void add(std::size_t first, std::size_t last, Bytes bytes);
  // Sets the part of a position's level that comes on top of all adds to ranges.
  void setOwn(std::size_t position, Bytes level);
  // A position above `level`, from a walk down the tree where `coin` chooses between two such
  // halves. Needs max() > level.
  template <typename Coin>
  std::size_t positionAbove(Bytes level, Coin&& coin) const {
    std::size_t node = 1;
    while (node < leaves_) {
      level -= added_[node];
      const bool left = max_[2 * node] > level, right = max_[2 * node + 1] > level;
      node = 2 * node + (left && right ? (coin() ? 1 : 0) : (right ? 1 : 0));
    }
    return node - leaves_ - 1;
  }

 private:
  void apply(std::size_t node, Bytes bytes) {
    max_[node] += bytes;
    added_[node] += bytes;
  }
  // Did its maximum change?
  bool update(std::size_t node) {
    const Bytes before = max_[node];
    max_[node] = std::max(max_[2 * node], max_[2 * node + 1]) + added_[node];
    return max_[node] != before;
  }
  void updateAbove(std::size_t node);

  std::size_t leaves_ = 1;    // a power of two; the first and the one after the last are empty
  std::vector<Bytes> max_;    // per node: the maximum below it, its own `added_` included
  std::vector<Bytes> added_;  // per node: added to all positions below it
};

}  // namespace ebbtide::scheduler
