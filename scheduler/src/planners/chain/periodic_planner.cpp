#include "planners/chain/periodic_planner.hpp"

#include <algorithm>
#include <cmath>

#include "model/planner_options.hpp"
#include "planners/chain/chain_search.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = ChainStep::Kind;

constexpr std::size_t kMostStages = 20'000;
constexpr std::size_t kAllTried = 64;  // of longer chains at most about 2 √stages segments

// Every segment but the last keeps its input alone, and saves all when its backward comes.
ChainSchedule periodicSchedule(std::size_t stages, std::size_t segments) {
  ChainSchedule steps;
  const auto add = [&](Kind kind, std::size_t stage) {
    steps.push_back({kind, static_cast<std::int32_t>(stage)});
  };
  const auto begin = [&](std::size_t segment) { return segment * stages / segments; };
  for (std::size_t segment = 0; segment + 1 < segments; ++segment) {
    for (std::size_t s = begin(segment); s < begin(segment + 1); ++s) {
      add(s == begin(segment) ? Kind::kRunKeep : Kind::kRun, s);
    }
  }
  for (std::size_t segment = segments; segment-- > 0;) {
    for (std::size_t s = begin(segment); s < begin(segment + 1); ++s) add(Kind::kRunSave, s);
    for (std::size_t s = begin(segment + 1); s-- > begin(segment);) add(Kind::kBackward, s);
  }
  return steps;
}

}  // namespace

PlannerInfo PeriodicPlanner::info() const {
  return {
      "periodic", "baseline in rotor2024 section 5.4",
      "The fastest that fits of the single-pass schedules with segments of equally many stages."};
}

PlanResult PeriodicPlanner::plan(const Graph& graph, Bytes budget_bytes,
                                 const PlannerOptions& options) const {
  rejectUnknownOptions(options, info());
  ChainSearch search(graph, budget_bytes, options, info().name);
  if (search.best().feasible || search.late()) return search.best();
  search.contract(kMostStages);
  const std::size_t stages = search.mostStages();
  const double root = std::sqrt(static_cast<double>(stages));
  const std::size_t most = stages <= kAllTried ? stages : static_cast<std::size_t>(2 * root);
  for (std::size_t segments = 2; segments <= most && !search.late(); ++segments) {
    std::vector<ChainSchedule> schedules;
    for (const ChainContraction& chain : search.chains()) {
      const std::size_t its_stages = chain.costs.stages();
      schedules.push_back(periodicSchedule(its_stages, std::min(segments, its_stages)));
    }
    search.consider(schedules);
  }
  return search.best();
}

}  // namespace ebbtide::scheduler
