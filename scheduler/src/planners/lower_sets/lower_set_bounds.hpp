// What a lower-set program knows of every sequence before it looks for one: bounds on the memory
// and the cost of its states. The bounds rule most states out.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "planners/lower_sets/lower_set_dp.hpp"

namespace ebbtide::scheduler {

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 4;

inline constexpr double kNoPath = std::numeric_limits<double>::infinity();

// Prices of a byte at which ways are compared.
inline constexpr std::size_t kPrices = 12;
using Prices = std::array<double, kPrices>;

// What the memory alone allows, per lower set; states outside it lead nowhere.
struct LowerSetSolver::Bounds {
  std::vector<std::int64_t> least;  // least m of any state; kNever: cannot be reached
  std::vector<std::int64_t> peak;   // of the sequence that has it
  std::vector<std::int64_t> most;   // most m from which V can be reached; -1: from none
  std::int64_t last_most = 0;       // most m of any state before the last segment
  Prices price{};                   // of a byte, in cost
  // Per price the least of cost and memory's price on a way from the empty set, and on one to V.
  std::vector<Prices> start, rest;

  double restCost(std::size_t set, std::int64_t memory) const;
  bool mayCost(const Move& move, std::size_t to, std::int64_t cutoff) const;
};

// Less cost than this no strategy adds to a state of that set and that much memory.
inline double LowerSetSolver::Bounds::restCost(std::size_t set, std::int64_t memory) const {
  const double room = static_cast<double>(last_most - memory);
  double best = rest[set][0];
  for (std::size_t i = 1; i < kPrices; ++i) best = std::max(best, rest[set][i] - price[i] * room);
  return best;
}

// Can a strategy that takes this move cost as little as `cutoff`?
inline bool LowerSetSolver::Bounds::mayCost(const Move& move, std::size_t to,
                                            std::int64_t cutoff) const {
  const Prices& before = start[static_cast<std::size_t>(move.from)];
  const double over = static_cast<double>(move.memory - last_most);
  double through = -kNoPath;
  for (std::size_t i = 0; i < kPrices; ++i) {
    through = std::max(through, before[i] + rest[to][i] + price[i] * over);
  }
  // Costs are whole numbers: half a one covers the rounding.
  return through + static_cast<double>(move.cost) <= static_cast<double>(cutoff) + 0.5;
}

}  // namespace ebbtide::scheduler
