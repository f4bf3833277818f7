#include "planners/baselines/chen_planner.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/planner_options.hpp"
#include "planners/baselines/articulation.hpp"

namespace ebbtide::scheduler {

ChenSegments::ChenSegments(const Graph& graph, const RetentionSearch& search,
                           const ForwardPhase& phase)
    : graph_(graph), phase_(phase), saved_(phase.size(), 0), last_(graph.values.size(), kNone) {
  Neighbours neighbours(phase.size());
  const OpId begin = static_cast<OpId>(phase.begin);
  for (std::size_t id = phase.begin; id < phase.end; ++id) {
    for (ValueId input : graph.ops[id].inputs) {
      const Value& value = graph.values[input];
      if (value.pinned || value.producer == kNone || value.producer < begin) continue;
      last_[input] = static_cast<OpId>(id);
      neighbours[id - phase.begin].push_back(value.producer - begin);
      neighbours[value.producer - begin].push_back(static_cast<OpId>(id) - begin);
    }
    for (ValueId output : graph.ops[id].outputs) {
      const Value& value = graph.values[output];
      // The bytes of an overwritten epoch are the next epoch's.
      const bool counts = !value.pinned && value.overwritten_by == kNone;
      if (counts && search.wantedByEvents(output)) saved_[id - phase.begin] += value.bytes;
    }
  }
  for (auto& list : neighbours) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  const std::vector<bool> points = articulationPoints(neighbours);
  for (std::size_t id = 0; id < points.size(); ++id) {
    if (points[id]) candidates_.push_back(static_cast<OpId>(id) + begin);
  }
}

std::vector<OpId> ChenSegments::cuts(std::size_t segments) const {
  const Bytes total = std::accumulate(saved_.begin(), saved_.end(), Bytes{0});
  const double share = static_cast<double>(total) / static_cast<double>(segments);
  std::vector<OpId> cuts;
  Bytes held = 0;
  std::size_t op = phase_.begin;
  for (OpId candidate : candidates_) {
    for (; op <= static_cast<std::size_t>(candidate); ++op) held += saved_[op - phase_.begin];
    if (static_cast<double>(held) < share) continue;
    cuts.push_back(candidate);
    held = 0;
  }
  return cuts;
}

void ChenSegments::keepAcross(const std::vector<OpId>& cuts, bool keep_last,
                              Retention& retention) const {
  for (std::size_t id = phase_.begin; id < phase_.end; ++id) {
    const auto cut = std::lower_bound(cuts.begin(), cuts.end(), static_cast<OpId>(id));
    for (ValueId output : graph_.ops[id].outputs) {
      retention.keep[output] =
          cut == cuts.end() ? keep_last && retention.keep[output] : last_[output] > *cut;
    }
  }
}

PlannerInfo ChenPlanner::info() const {
  return {"chen", "Chen and others 2016, as kusumoto2019 sections 2 and 5 compare with",
          "Segments cut at articulation points of the forward pass; at most one more forward pass "
          "in the paper's model."};
}

PlanResult ChenPlanner::plan(const Graph& graph, Bytes budget_bytes,
                             const PlannerOptions& options) const {
  rejectUnknownOptions(options, info());
  RetentionSearch search(graph, budget_bytes, options);
  ScoredRetention best = search.score(search.builder().keepAll());
  std::vector<ChenSegments> phases;
  std::size_t most = 0;
  if (!search.feasible(best) && !search.late()) {
    for (const ForwardPhase& phase : search.phases()) {
      phases.emplace_back(graph, search, phase);
      most = std::max(most, phases.back().candidates() + 1);
    }
  }
  // The square root first, then fewer and more by half.
  const double root = std::sqrt(static_cast<double>(most));
  std::vector<double> counts = {root};
  for (double factor = 1.25; root / factor >= 1 || root * factor <= static_cast<double>(most);
       factor *= 1.25) {
    counts.push_back(root / factor);
    counts.push_back(root * factor);
  }
  for (double count : counts) {
    if (phases.empty() || search.late()) break;
    const auto segments = static_cast<std::size_t>(std::lround(count));
    if (segments < 1 || segments > most) continue;
    for (bool keep_last : {false, true}) {
      Retention retention = search.builder().keepAll();
      for (const ChenSegments& phase : phases) {
        phase.keepAcross(phase.cuts(segments), keep_last, retention);
      }
      ScoredRetention scored = search.score(std::move(retention));
      if (search.better(scored, best)) best = std::move(scored);
    }
  }
  return search.result(best, info().name);
}

}  // namespace ebbtide::scheduler
