#include "planners/chain/chain_search.hpp"

#include <algorithm>
#include <utility>

#include "planners/chain/chain_join.hpp"
#include "planners/chain/chain_peak.hpp"

namespace ebbtide::scheduler {

ChainSearch::ChainSearch(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options,
                         const std::string& planner)
    : graph_(graph), choice_(graph, budget_bytes, options, planner) {}

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
  return choice_.consider(expansion_->expand(schedules));
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
