// Random problems of kusumoto2019's model.
#pragma once

#include <random>

#include "planners/lower_sets/lower_sets.hpp"

namespace ebbtide::scheduler {

// About `degree` edges out of the first node, fewer out of later ones.
inline LowerSetProblem randomProblem(std::uint64_t seed, std::size_t nodes,
                                     std::size_t degree = 2) {
  std::mt19937_64 random(seed);
  LowerSetProblem problem;
  problem.next.resize(nodes);
  for (std::size_t v = 0; v < nodes; ++v) {
    problem.time.push_back(static_cast<std::int64_t>(random() % 10));
    problem.memory.push_back(static_cast<std::int64_t>(random() % 10));
    for (std::size_t w = v + 1; w < nodes; ++w) {
      if (random() % nodes < degree) problem.next[v].push_back(static_cast<std::int32_t>(w));
    }
  }
  return problem;
}

}  // namespace ebbtide::scheduler
