#include "base/min_cut.hpp"

#include <algorithm>

namespace ebbtide::scheduler {

void MinCut::addEdge(std::size_t from, std::size_t to, std::int64_t capacity) {
  const auto add = [this](std::size_t a, std::size_t b, std::int64_t left) {
    edges_.push_back({static_cast<std::int32_t>(b), head_[a], left});
    head_[a] = static_cast<std::int32_t>(edges_.size()) - 1;
  };
  add(from, to, capacity);
  add(to, from, 0);
}

bool MinCut::layer(std::size_t source, std::size_t sink) {
  level_.assign(head_.size(), -1);
  level_[source] = 0;
  queue_.assign(1, static_cast<std::int32_t>(source));
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    for (std::int32_t e = head_[queue_[i]]; e >= 0; e = edges_[e].next) {
      if (edges_[e].left == 0 || level_[edges_[e].to] >= 0) continue;
      level_[edges_[e].to] = level_[queue_[i]] + 1;
      queue_.push_back(edges_[e].to);
    }
  }
  return level_[sink] >= 0;
}

// One path of the layered graph; false if there is none left.
bool MinCut::augment(std::size_t source, std::size_t sink) {
  path_.clear();
  std::size_t at = source;
  while (at != sink) {
    std::int32_t& e = cursor_[at];
    while (e >= 0 && (edges_[e].left == 0 || level_[edges_[e].to] != level_[at] + 1)) {
      e = edges_[e].next;
    }
    if (e >= 0) {
      path_.push_back(e);
      at = static_cast<std::size_t>(edges_[e].to);
    } else {
      if (path_.empty()) return false;
      at = static_cast<std::size_t>(edges_[path_.back() ^ 1].to);
      cursor_[at] = edges_[path_.back()].next;
      path_.pop_back();
    }
  }
  std::int64_t flow = kInfinite;
  for (std::int32_t e : path_) flow = std::min(flow, edges_[e].left);
  for (std::int32_t e : path_) {
    edges_[e].left -= flow;
    edges_[e ^ 1].left += flow;
  }
  return true;
}

std::vector<bool> MinCut::sourceSide(std::size_t source, std::size_t sink) {
  while (layer(source, sink)) {
    cursor_ = head_;
    while (augment(source, sink)) {
    }
  }
  std::vector<bool> side(head_.size());
  for (std::size_t node = 0; node < side.size(); ++node) side[node] = level_[node] >= 0;
  return side;
}

}  // namespace ebbtide::scheduler
