// Ruin and recreate (large neighbourhood search) over retentions. At the budget no single value can
// be kept without dropping others, and which others is what the greedy passes know best.
#include <algorithm>
#include <iterator>
#include <utility>

#include "search/retention_search.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr int kFailuresPerRound = 6;

// Rounds of one search, however much work is left for it. Twice as many find nothing more on
// recorded steps.
constexpr std::size_t kRounds = 50, kRoundsPerValue = 4;

// Share of the work for these rounds; the rest goes to random moves.
constexpr double kRecreateShare = 0.5;

// A move may lead this much above the present cost at first; the allowance falls to nothing. One
// cycle of both searches each, from the best so far: wide ones leave the first local optimum.
constexpr double kSlacks[] = {0.06, 0.02, 0.008};

}  // namespace

// Forces a class (or the part of it before or after a border), or a few values near each other.
void RetentionSearch::ruin(Retention& retention, std::vector<bool>& forced) {
  const auto force = [&](ValueId value, bool keep) {
    retention.keep[value] = keep;
    forced[value] = true;
  };
  const bool keep = pick(2) == 0;
  if (pick(3) == 0) {
    const std::vector<ValueId>& members = classes_[pick(classes_.size())];
    const std::size_t border = pick(members.size() + 1);
    for (std::size_t i = 0; i < members.size(); ++i) force(members[i], (i >= border) == keep);
    return;
  }
  std::size_t left = 1 + pick(4);
  const std::size_t reach = std::min<std::size_t>(movable_.size(), 40);
  for (std::size_t i = 0, at = pick(movable_.size()); i < reach && left > 0; ++i) {
    const ValueId value = movable_[(at + i) % movable_.size()];
    if (retention.keep[value] == keep || pick(2) == 0) continue;
    force(value, keep);
    --left;
  }
}

ScoredRetention RetentionSearch::recreate(Retention retention, const std::vector<bool>& forced) {
  ScoredRetention scored = score(std::move(retention));
  if (!feasible(scored)) scored = dropUntilFits(std::move(scored), forced);
  if (!feasible(scored)) scored = shedCopies(std::move(scored));
  if (!feasible(scored)) return scored;
  return keepBack(std::move(scored), forced, kFailuresPerRound);
}

ScoredRetention RetentionSearch::ruinOnce(const Retention& retention) {
  std::vector<bool> forced(graph_.values.size(), false);
  Retention next = retention;
  ruin(next, forced);
  // Recomputed copies may be held anew: the greedy passes drop them where they must.
  if (!next.memo_from.empty() && pick(4) == 0) next.memo_from.clear();
  return recreate(std::move(next), forced);
}

ScoredRetention RetentionSearch::ruinAndRecreate(ScoredRetention start, std::int64_t work,
                                                 double slack) {
  return walk(std::move(start), {work, kRounds + kRoundsPerValue * movable_.size(), slack},
              [this](const Retention& retention) { return ruinOnce(retention); });
}

ScoredRetention RetentionSearch::improve(ScoredRetention start, std::int64_t work) {
  const auto share = static_cast<std::int64_t>(kRecreateShare * static_cast<double>(work));
  ScoredRetention best = std::move(start);
  const auto cycles = static_cast<std::int64_t>(std::size(kSlacks));
  for (double slack : kSlacks) {
    const auto before = std::pair(best.peak_bytes, best.recompute_ns);
    best = ruinAndRecreate(std::move(best), share / cycles, slack);
    best = localSearch(std::move(best), (work - share) / cycles, slack);
    // Narrower ones find little where a wide one found nothing.
    if (feasible(best) && std::pair(best.peak_bytes, best.recompute_ns) == before) break;
  }
  return best;
}

}  // namespace ebbtide::scheduler
