#include "placement/live_index.hpp"

#include <algorithm>
#include <bit>

namespace ebbtide::scheduler {
namespace {

// Calls `whole` with the largest nodes that make up the leaves [first, end), ends inwards, and
// `part` with every node above one of them.
template <typename Whole, typename Part>
void forEachNode(std::int32_t first, std::int32_t end, Whole whole, Part part) {
  const std::int32_t last = end - 1;
  for (std::int32_t from = first, to = end; from < to; from /= 2, to /= 2) {
    if (from % 2 == 1) whole(from++);
    if (to % 2 == 1) whole(--to);
  }
  // Nodes above contain the first leaf or the last one, and leaves that are not in [first, end).
  std::int32_t leaves = 2;
  for (std::int32_t left = first / 2, right = last / 2; left > 0; left /= 2, right /= 2) {
    const bool left_part = left * leaves < first || (left + 1) * leaves > end;
    const bool right_part = right * leaves < first || (right + 1) * leaves > end;
    if (left_part) part(left);
    if (right_part && right != left) part(right);
    leaves *= 2;
  }
}

}  // namespace

LiveIndex::LiveIndex(std::int32_t sections)
    : leaves_(static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(sections)))),
      nodes_(2 * static_cast<std::size_t>(leaves_)) {}

void LiveIndex::add(std::int32_t first, std::int32_t end, Extent extent) {
  forEachNode(
      first + leaves_, end + leaves_,
      [&](std::int32_t node) {
        unite(nodes_[node].throughout, extent);
        unite(nodes_[node].within, extent);
      },
      [&](std::int32_t node) { unite(nodes_[node].within, extent); });
}

void LiveIndex::startGaps(std::int32_t first, std::int32_t end) {
  gap_from_ = 0;
  cursors_.clear();
  const auto take = [&](const Ranges& ranges) {
    if (!ranges.empty()) cursors_.push_back({ranges.data(), ranges.data() + ranges.size()});
  };
  forEachNode(
      first + leaves_, end + leaves_, [&](std::int32_t node) { take(nodes_[node].within); },
      [&](std::int32_t node) { take(nodes_[node].throughout); });
}

// Each node in turn lifts the gap over what it has in its way, until none has.
Extent LiveIndex::nextGap(Bytes bytes) {
  Bytes from = gap_from_, top = kEndless;
  std::size_t agreed = 0;
  for (std::size_t i = 0; agreed < cursors_.size(); i = i + 1 < cursors_.size() ? i + 1 : 0) {
    auto& [next, end] = cursors_[i];
    while (next != end && next->top <= from) ++next;
    ++agreed;
    if (next == end) continue;
    if (next->offset < from + bytes) {
      from = next->top;
      top = kEndless;
      agreed = 0;
    } else {
      top = std::min(top, next->offset);
    }
  }
  gap_from_ = top;
  return {from, top};
}

void LiveIndex::unite(Ranges& ranges, Extent extent) {
  // All that touch the extent become one with it.
  const auto from =
      std::lower_bound(ranges.begin(), ranges.end(), extent.offset,
                       [](const Extent& range, Bytes offset) { return range.top < offset; });
  auto end = from;
  for (; end != ranges.end() && end->offset <= extent.top; ++end) {
    extent = {std::min(extent.offset, end->offset), std::max(extent.top, end->top)};
  }
  if (from == end) {
    ranges.insert(from, extent);
    return;
  }
  *from = extent;
  ranges.erase(from + 1, end);
}

}  // namespace ebbtide::scheduler
