#include "planners/baselines/articulation.hpp"

#include <algorithm>

namespace ebbtide::scheduler {

std::vector<bool> articulationPoints(const Neighbours& graph) {
  struct Visit {
    std::int32_t node, parent;
    std::size_t next = 0, children = 0;
  };
  const std::size_t n = graph.size();
  std::vector<bool> cuts(n, false);
  std::vector<std::int32_t> found(n, -1), low(n, -1);  // low: the earliest node that it reaches
  std::int32_t time = 0;
  std::vector<Visit> stack;
  for (std::size_t root = 0; root < n; ++root) {
    if (found[root] != -1) continue;
    stack.push_back({static_cast<std::int32_t>(root), -1});
    found[root] = low[root] = time++;
    while (!stack.empty()) {
      Visit& visit = stack.back();
      const std::int32_t node = visit.node;
      if (visit.next < graph[node].size()) {
        const std::int32_t other = graph[node][visit.next++];
        if (other == visit.parent) continue;
        if (found[other] != -1) {
          low[node] = std::min(low[node], found[other]);
          continue;
        }
        ++visit.children;
        found[other] = low[other] = time++;
        stack.push_back({other, node});
        continue;
      }
      const Visit done = visit;
      stack.pop_back();
      if (done.parent == -1) {
        cuts[node] = done.children > 1;
        continue;
      }
      low[done.parent] = std::min(low[done.parent], low[node]);
      // The root's parts are its children.
      const bool root_above = stack.back().parent == -1;
      if (!root_above && low[node] >= found[done.parent]) cuts[done.parent] = true;
    }
  }
  return cuts;
}

}  // namespace ebbtide::scheduler
