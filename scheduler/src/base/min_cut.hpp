// Minimum cut by Dinic's algorithm; no recursion.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace ebbtide::scheduler {

class MinCut {
 public:
  static constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max() / 4;

  explicit MinCut(std::size_t nodes) : head_(nodes, -1) {}
  void addEdge(std::size_t from, std::size_t to, std::int64_t capacity);
  // Per node: on the source's side of the minimum cut that is smallest on that side.
  std::vector<bool> sourceSide(std::size_t source, std::size_t sink);

 private:
  struct Edge {
    std::int32_t to, next;
    std::int64_t left;
  };

  bool layer(std::size_t source, std::size_t sink);
  bool augment(std::size_t source, std::size_t sink);

  std::vector<std::int32_t> head_, level_, cursor_, path_, queue_;
  std::vector<Edge> edges_;  // each with its reverse at index ^ 1
};

}  // namespace ebbtide::scheduler
