#include "planners/greedy/greedy_planner.hpp"

#include <algorithm>

#include "model/planner_options.hpp"

namespace ebbtide::scheduler {

namespace {
constexpr std::size_t kSeedsImproved = 5;
}  // namespace

PlannerInfo GreedyPlanner::info() const {
  return {"greedy",
          "own; seeds after Chen et al. as in kusumoto2019 section 2",
          "Never worse than the best of its seeds.",
          {workOption()}};
}

ScoredRetention GreedyPlanner::construct(RetentionSearch& search) {
  ScoredRetention best = search.score(search.builder().keepAll());
  if (search.feasible(best)) return best;
  const auto consider = [&](ScoredRetention scored) {
    if (!search.feasible(scored)) scored = search.shrink(std::move(scored));
    if (search.feasible(scored)) scored = search.keepBack(std::move(scored));
    if (search.better(scored, best)) best = std::move(scored);
  };
  consider(best);
  consider(search.searchPrices(std::vector<bool>(best.retention.keep.size(), false)));
  // Segments 1, 2, 3, 4, 5, 6, 8, ... : few cuts leave long replays, many cuts keep much.
  std::vector<ScoredRetention> seeds;
  std::size_t most = 0;
  for (const auto& phase : search.phases()) most = std::max(most, phase.size());
  for (std::size_t segments = 1; segments <= most && !search.late();
       segments += std::max<std::size_t>(1, segments / 3)) {
    seeds.push_back(search.score(search.segmentSeed(segments)));
  }
  std::stable_sort(seeds.begin(), seeds.end(),
                   [&](const auto& a, const auto& b) { return search.better(a, b); });
  if (seeds.size() > kSeedsImproved) seeds.resize(kSeedsImproved);
  for (ScoredRetention& seed : seeds) {
    const std::vector<bool> checkpoints = seed.retention.keep;
    consider(std::move(seed));
    if (!search.late()) consider(search.searchPrices(checkpoints));
  }
  return best;
}

PlanResult GreedyPlanner::plan(const Graph& graph, Bytes budget_bytes,
                               const PlannerOptions& options) const {
  rejectUnknownOptions(options, info());
  const std::int64_t work = integerOption(options, "work", kDefaultSearchWork);
  RetentionSearch search(graph, budget_bytes, options);
  return search.result(search.improve(construct(search), work), "greedy");
}

}  // namespace ebbtide::scheduler
