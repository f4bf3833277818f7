#include "planners/lower_sets/lower_set_bounds.hpp"

#include <algorithm>

namespace ebbtide::scheduler {
namespace {

// Times T(V) over the budget.
constexpr Prices kPriceLadder{0, .03, .06, .12, .2, .35, .6, 1, 1.7, 3, 5, 10};

}  // namespace

// Fills in Bounds::least and peak. Is V reached?
bool LowerSetSolver::reach(std::int64_t budget, Bounds& bounds) const {
  bounds.least.assign(extensions_.sets(), kNever);
  bounds.peak.assign(extensions_.sets(), 0);
  bounds.least[0] = 0;
  std::vector<LowerSetExtension> scratch;
  for (std::size_t to = 1; to < extensions_.sets(); ++to) {
    if (limits_.late()) return false;
    for (const LowerSetExtension& step : extensions_.to(to, budget, scratch)) {
      const auto from = static_cast<std::size_t>(step.from);
      const std::int64_t needed = bounds.least[from] + extensions_.segmentBytes(from, to);
      const std::int64_t memory = bounds.least[from] + step.memory;
      if (needed > budget || memory >= bounds.least[to]) continue;
      bounds.least[to] = memory;
      bounds.peak[to] = std::max(bounds.peak[from], needed);
    }
  }
  return bounds.least.back() < kNever;
}

// For any price l >= 0 of a byte, the states (t, m) after L and (t', m') before V' = V \ L' have
//   t' - t >= min over paths of (sum of dt + l dm) - l (m' - m)    and    m' <= Bounds::last_most
void LowerSetSolver::boundRest(const Question& question, Bounds& bounds) const {
  const std::size_t sets = extensions_.sets();
  bounds.most.assign(sets, -1);
  bounds.most.back() = kNever;
  bounds.rest.assign(sets, Prices{});
  for (std::size_t i = 0; i + 1 < sets; ++i) bounds.rest[i].fill(kNoPath);
  const double even = (static_cast<double>(extensions_.totalTime()) + 1) /
                      (static_cast<double>(question.budget) + 1);
  for (std::size_t i = 0; i < kPrices; ++i) bounds.price[i] = even * kPriceLadder[i];
  std::vector<LowerSetExtension> scratch;
  for (std::size_t to = sets; to-- > 1;) {
    if (bounds.most[to] < bounds.least[to]) continue;
    if (limits_.late()) return;
    for (const LowerSetExtension& step : extensions_.to(to, question.budget, scratch)) {
      const auto from = static_cast<std::size_t>(step.from);
      const Move move = moveOf(step, to, question, bounds);
      if (bounds.least[from] > move.most) continue;
      bounds.most[from] = std::max(bounds.most[from], move.most);
      if (to + 1 == sets) bounds.last_most = std::max(bounds.last_most, move.most);
      const double cost = static_cast<double>(move.cost);
      const double memory = static_cast<double>(move.memory);
      for (std::size_t i = 0; i < kPrices; ++i) {
        const double rest = bounds.rest[to][i] + cost + bounds.price[i] * memory;
        bounds.rest[from][i] = std::min(bounds.rest[from][i], rest);
      }
    }
  }
}

}  // namespace ebbtide::scheduler
