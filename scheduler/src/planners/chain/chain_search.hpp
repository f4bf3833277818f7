// ChainSearch: what the chain planners share. Tries schedules of a graph's chains on the graph
// itself and keeps the best one by the simulator.
#pragma once

#include <string>
#include <vector>

#include "planners/chain/chain_contraction.hpp"
#include "planners/chain/chain_expansion.hpp"
#include "search/plan_choice.hpp"

namespace ebbtide::scheduler {

class ChainSearch {
 public:
  // Begins with the schedule that keeps everything. The graph must outlive it.
  ChainSearch(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options,
              const std::string& planner);

  // Sees the graph as chains of at most so many stages each from now on.
  void contract(std::size_t most_stages);
  const std::vector<ChainContraction>& chains() const { return chains_; }
  // Lets each stage save less than all, too; distinct blocks are solved once.
  void solveBlocks();
  std::size_t mostStages() const;  // of any chain; 0 if there is none

  // One schedule per chain. Returns the peak; takes the result if it is the best so far.
  Bytes consider(const std::vector<ChainSchedule>& schedules);
  // The schedules of smallest peak that chainPeak() knows.
  void considerSmallestPeak();

  const PlanResult& best() const { return choice_.best(); }
  bool late() const { return choice_.late(); }
  // Peak of keeping everything, by the simulator and as the chains' costs predict it.
  Bytes everythingBytes() const { return choice_.keepPeak(); }
  Bytes predictedEverythingBytes() const;

 private:
  const Graph& graph_;
  PlanChoice choice_;
  std::vector<ChainContraction> chains_;
  std::unique_ptr<ChainExpansion> expansion_;
};

}  // namespace ebbtide::scheduler
