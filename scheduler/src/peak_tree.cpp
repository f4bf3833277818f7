#include "peak_tree.hpp"

#include <algorithm>
#include <limits>

namespace ebbtide::scheduler {
namespace {
// Of positions that pad the tree: stays below all others whatever is added.
constexpr Bytes kNever = std::numeric_limits<Bytes>::min() / 2;
}  // namespace

PeakTree::PeakTree(const std::vector<Bytes>& levels) {
  while (leaves_ < levels.size()) leaves_ *= 2;
  max_.assign(2 * leaves_, kNever);
  added_.assign(2 * leaves_, 0);
  std::copy(levels.begin(), levels.end(), max_.begin() + static_cast<std::ptrdiff_t>(leaves_));
  for (std::size_t node = leaves_; node-- > 1;) {
    max_[node] = std::max(max_[2 * node], max_[2 * node + 1]);
  }
}

std::size_t PeakTree::argmax() const {
  return positionAbove(max_[1] - 1, [] { return false; });
}

void PeakTree::rebuildAbove(std::size_t node) {
  for (node /= 2; node > 0; node /= 2) {
    max_[node] = std::max(max_[2 * node], max_[2 * node + 1]) + added_[node];
  }
}

void PeakTree::add(std::size_t first, std::size_t last, Bytes bytes) {
  std::size_t low = first + leaves_, high = last + leaves_ + 1;
  for (; low < high; low /= 2, high /= 2) {
    if (low % 2 == 1) apply(low++, bytes);
    if (high % 2 == 1) apply(--high, bytes);
  }
  rebuildAbove(first + leaves_);
  rebuildAbove(last + leaves_);
}

void PeakTree::setOwn(std::size_t position, Bytes level) {
  max_[position + leaves_] = level + added_[position + leaves_];
  rebuildAbove(position + leaves_);
}

}  // namespace ebbtide::scheduler
