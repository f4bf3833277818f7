// ChainSearch: what the chain planners share. Tries schedules of a graph's chains on the graph
// itself and keeps the best one by the simulator.
#pragma once

#include <string>
#include <vector>

#include "chain_contraction.hpp"
#include "chain_expansion.hpp"
#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

class ChainSearch {
 public:
  // Begins with the schedule that keeps everything. Graph and options must outlive it.
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

  const PlanResult& best() const { return best_; }
  bool late() const { return std::chrono::steady_clock::now() >= options_.deadline; }
  // Peak of keeping everything, by the simulator and as the chains' costs predict it.
  Bytes everythingBytes() const { return everything_bytes_; }
  Bytes predictedEverythingBytes() const;

 private:
  const Graph& graph_;
  const Bytes budget_;
  const PlannerOptions& options_;
  PlanResult best_;
  Bytes everything_bytes_;
  std::vector<ChainContraction> chains_;
  std::unique_ptr<ChainExpansion> expansion_;
};

}  // namespace ebbtide::scheduler
