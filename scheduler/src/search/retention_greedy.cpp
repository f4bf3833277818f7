// The greedy passes of RetentionSearch: drop until the budget is met, keep back what fits.
#include <algorithm>
#include <cmath>
#include <utility>

#include "ebbtide/scheduler/simulator.hpp"
#include "search/retention_search.hpp"

namespace ebbtide::scheduler {
namespace {

// Single values that fail in turn before a pass gives up: most of the rest would fail too.
constexpr int kMostFailures = 120;

// A schedule that recomputes longer than this many whole steps serves nobody, whatever its peak.
constexpr double kMostRecompute = 4.0;

// Times per byte within 4 % count as equal, so that measured noise does not part identical blocks.
int ratioBucket(Nanoseconds time, Bytes bytes) {
  return static_cast<int>(std::lround(
      25.0 * std::log((static_cast<double>(time) + 1.0) / (static_cast<double>(bytes) + 1.0))));
}

}  // namespace

// Kept values that are live at the peak for later readers only, best first; among equals the
// earliest, since memory for its replay is free again by the time its block's backward comes.
std::vector<ValueId> RetentionSearch::dropCandidates(const ScoredRetention& scored,
                                                     const std::vector<bool>& tabu) {
  costs_.update(scored.retention);
  work_ += static_cast<std::int64_t>(graph_.ops.size() + movable_.size());
  std::vector<std::pair<int, ValueId>> ranked;
  for (ValueId value : movable_) {
    const Value& v = graph_.values[value];
    const bool live = v.producer <= scored.peak_op && v.last_reference < scored.peak_op + 1 &&
                      std::max(builder_.lastNeed(value), v.saved_last) > scored.peak_op;
    if (!live || tabu[value] || v.bytes == 0 || !scored.retention.keep[value]) continue;
    ranked.emplace_back(ratioBucket(costs_.dropCost(value), v.bytes), value);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<ValueId> candidates;
  candidates.reserve(ranked.size());
  for (const auto& [ratio, value] : ranked) candidates.push_back(value);
  return candidates;
}

ScoredRetention RetentionSearch::dropUntilFits(ScoredRetention start, std::vector<bool> tabu) {
  ScoredRetention best = std::move(start);
  tabu.resize(graph_.values.size(), false);
  int failures = 0;
  double share = 0.5;  // of the missing bytes to free by one batch
  while (!feasible(best) && !late()) {
    const std::vector<ValueId> candidates = dropCandidates(best, tabu);
    if (candidates.empty()) break;
    const double wanted = share * static_cast<double>(best.peak_bytes - budget_);
    Retention next = best.retention;
    double freed = 0;
    std::size_t count = 0;
    while (count < candidates.size() && (count == 0 || freed < wanted)) {
      next.keep[candidates[count]] = false;
      freed += static_cast<double>(graph_.values[candidates[count]].bytes);
      ++count;
    }
    ScoredRetention scored = score(std::move(next));
    if (scored.peak_bytes < best.peak_bytes) {
      best = std::move(scored);
    } else if (count == 1) {
      tabu[candidates[0]] = true;
      if (++failures == kMostFailures) break;
    } else {
      share /= 4;
    }
  }
  return best;
}

// Recomputed copies that are live at the peak and may be held for later ops, largest first, and the
// first of those ops.
std::pair<std::vector<ValueId>, OpId> RetentionSearch::copiesAtPeak(const ScoredRetention& scored) {
  const Schedule schedule = builder_.build(scored.retention);
  const Simulation simulation = simulate(graph_, schedule);
  std::vector<bool> live(graph_.values.size(), false);
  OpId next = 0;
  for (std::size_t i = 0; i < simulation.peak_step; ++i) {
    const Step& step = schedule.steps[i];
    if (step.kind == Step::Kind::kDrop) live[step.id] = false;
    if (step.kind != Step::Kind::kRun) continue;
    const bool first = step.id == next;
    if (first) ++next;
    for (ValueId output : graph_.ops[step.id].outputs) live[output] = !first;
  }
  std::vector<ValueId> copies;
  for (ValueId value : movable_) {
    const bool early =
        !scored.retention.memo_from.empty() && scored.retention.memo_from[value] > next;
    if (!live[value] || early || !scored.retention.memo[value]) continue;
    if (graph_.values[value].bytes > 0) copies.push_back(value);
  }
  std::stable_sort(copies.begin(), copies.end(), [this](ValueId a, ValueId b) {
    return graph_.values[a].bytes > graph_.values[b].bytes;
  });
  return {std::move(copies), next + 1};
}

ScoredRetention RetentionSearch::shedCopies(ScoredRetention start) {
  ScoredRetention best = std::move(start);
  std::vector<bool> tabu(graph_.values.size(), false);
  int failures = 0;
  std::size_t batch = 16;
  while (!feasible(best) && !late()) {
    auto [copies, later] = copiesAtPeak(best);
    std::erase_if(copies, [&](ValueId value) { return tabu[value]; });
    if (copies.empty()) break;
    batch = std::min(batch, copies.size());
    Retention next = best.retention;
    if (next.memo_from.empty()) next.memo_from.assign(graph_.values.size(), 0);
    for (std::size_t i = 0; i < batch; ++i) next.memo_from[copies[i]] = later;
    ScoredRetention scored = score(std::move(next));
    const bool sane = static_cast<double>(scored.recompute_ns) <=
                      kMostRecompute * static_cast<double>(graph_.totalDurationNs());
    if (sane && scored.peak_bytes < best.peak_bytes) {
      best = std::move(scored);
    } else if (batch == 1) {
      tabu[copies[0]] = true;
      if (++failures == kMostFailures) break;
    } else {
      batch = (batch + 1) / 2;
    }
  }
  return best;
}

ScoredRetention RetentionSearch::shrink(ScoredRetention start) {
  ScoredRetention best = std::move(start);
  for (;;) {
    const Bytes before = best.peak_bytes;
    best = shedCopies(dropUntilFits(std::move(best)));
    if (feasible(best) || best.peak_bytes >= before || late()) return best;
  }
}

ScoredRetention RetentionSearch::keepBack(ScoredRetention start) {
  return keepBack(std::move(start), {}, kMostFailures);
}

ScoredRetention RetentionSearch::keepBack(ScoredRetention start, std::vector<bool> tabu,
                                          int most_failures) {
  ScoredRetention best = std::move(start);
  tabu.resize(graph_.values.size(), false);
  int failures = 0;
  std::size_t batch = 64;
  while (!late()) {
    costs_.update(best.retention);
    work_ += static_cast<std::int64_t>(graph_.ops.size() + movable_.size());
    std::vector<std::pair<int, ValueId>> ranked;
    for (ValueId value : movable_) {
      if (best.retention.keep[value] || tabu[value]) continue;
      const Nanoseconds saving = costs_.keepSaving(value);
      if (saving > 0) ranked.emplace_back(-ratioBucket(saving, graph_.values[value].bytes), -value);
    }
    if (ranked.empty()) break;
    batch = std::min(batch, ranked.size());
    std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(batch),
                      ranked.end());
    Retention next = best.retention;
    for (std::size_t i = 0; i < batch; ++i) next.keep[-ranked[i].second] = true;
    ScoredRetention scored = score(std::move(next));
    if (better(scored, best)) {
      best = std::move(scored);
      batch *= 2;
    } else if (batch > 1) {
      batch = (batch + 3) / 4;
    } else {
      tabu[-ranked[0].second] = true;
      if (++failures >= most_failures) break;
    }
  }
  return best;
}

}  // namespace ebbtide::scheduler
