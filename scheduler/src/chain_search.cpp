#include "chain_search.hpp"

#include <algorithm>
#include <utility>

#include "chain_join.hpp"
#include "chain_peak.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "plan_choice.hpp"

namespace ebbtide::scheduler {

ChainSearch::ChainSearch(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options,
                         const std::string& planner)
    : graph_(graph), budget_(budget_bytes), options_(options) {
  best_.schedule = keepEverything(graph);
  best_.peak_bytes = everything_bytes_ = simulate(graph, best_.schedule).peak_bytes;
  best_.feasible = best_.optimal = everything_bytes_ <= budget_;
  best_.planner = planner;
}

void ChainSearch::contract(std::size_t most_stages) {
  expansion_.reset();
  chains_ = contractToChains(graph_, most_stages);
  expansion_ = std::make_unique<ChainExpansion>(graph_, chains_);
}

void ChainSearch::solveBlocks() {
  scheduler::solveBlocks(graph_, chains_, [this] { return late(); });
}

std::size_t ChainSearch::mostStages() const {
  std::size_t most = 0;
  for (const ChainContraction& chain : chains_) most = std::max(most, chain.stages.size());
  return most;
}

Bytes ChainSearch::consider(const std::vector<ChainSchedule>& schedules) {
  PlanResult result;
  result.schedule = expansion_->expand(schedules);
  const Simulation simulation = simulate(graph_, result.schedule);
  const Bytes peak = result.peak_bytes = simulation.peak_bytes;
  result.recompute_ns = simulation.recompute_ns;
  result.feasible = peak <= budget_;
  result.optimal = result.feasible && result.recompute_ns == 0;
  result.planner = best_.planner;
  if (betterPlan(result, best_)) best_ = std::move(result);
  return peak;
}

void ChainSearch::considerSmallestPeak() {
  std::vector<ChainSchedule> schedules;
  for (const ChainContraction& chain : chains_)
    schedules.push_back(smallestPeak(chain.costs).schedule);
  consider(schedules);
}

Bytes ChainSearch::predictedEverythingBytes() const {
  Bytes peak = 0;
  for (const ChainContraction& chain : chains_) {
    const ChainCosts& costs = chain.costs;
    Bytes saved = 0;  // by the stages before
    for (std::size_t s = 0; s < costs.stages(); ++s) {
      peak = std::max({peak, saved + costs.first_save[s], saved + costs.backward[s]});
      saved += costs.saved[s];
    }
  }
  return peak;
}

}  // namespace ebbtide::scheduler
