#include "base/peak_tree.hpp"

#include <algorithm>
#include <limits>

namespace ebbtide::scheduler {
namespace {
// Of positions that pad the tree: stays below all others whatever is added.
constexpr Bytes kNever = std::numeric_limits<Bytes>::min() / 2;
}  // namespace

PeakTree::PeakTree(const std::vector<Bytes>& levels) {
  while (leaves_ < levels.size() + 2) leaves_ *= 2;
  max_.assign(2 * leaves_, kNever);
  added_.assign(2 * leaves_, 0);
  std::copy(levels.begin(), levels.end(), max_.begin() + static_cast<std::ptrdiff_t>(leaves_) + 1);
  for (std::size_t node = leaves_; node-- > 1;) update(node);
}

std::size_t PeakTree::argmax() const {
  return positionAbove(max_[1] - 1, [] { return false; });
}

void PeakTree::updateAbove(std::size_t node) {
  while ((node /= 2) > 0 && update(node)) {
  }
}

// From the two leaves just outside the range upwards: what hangs inside between their paths is
// covered whole.
void PeakTree::add(std::size_t first, std::size_t last, Bytes bytes) {
  std::size_t low = first + leaves_, high = last + leaves_ + 2;
  while ((low ^ high) != 1) {
    if (low % 2 == 0) apply(low + 1, bytes);
    if (high % 2 == 1) apply(high - 1, bytes);
    low /= 2;
    high /= 2;
    update(low);
    update(high);
  }
  updateAbove(low);
}

void PeakTree::setOwn(std::size_t position, Bytes level) {
  const std::size_t leaf = position + 1 + leaves_;
  const Bytes now = level + added_[leaf];
  if (now == max_[leaf]) return;
  max_[leaf] = now;
  updateAbove(leaf);
}

}  // namespace ebbtide::scheduler
