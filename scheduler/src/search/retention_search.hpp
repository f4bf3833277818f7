// RetentionSearch: search over retentions, every step judged by the simulator. Shared by the
// planners that choose what to keep. Deterministic: work is counted in schedule steps simulated,
// not in seconds; only a deadline, if one is given, may end it earlier.
#pragma once

#include <functional>
#include <random>

#include "base/search_end.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "model/forward_phase.hpp"
#include "search/recompute_costs.hpp"
#include "search/retention.hpp"

namespace ebbtide::scheduler {

struct ScoredRetention {
  Retention retention;
  Bytes peak_bytes = 0;
  Nanoseconds recompute_ns = 0;
  OpId peak_op = kNone;
};

class RetentionSearch {
 public:
  RetentionSearch(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options);

  const ScheduleBuilder& builder() const { return builder_; }
  ScoredRetention score(Retention retention);
  // Feasible before infeasible; then less time, or less peak where both are infeasible.
  bool better(const ScoredRetention& a, const ScoredRetention& b) const;
  bool feasible(const ScoredRetention& scored) const { return scored.peak_bytes <= budget_; }

  // Drops values live at the peak, least added time per byte first, until the budget is met or
  // nothing helps.
  ScoredRetention dropUntilFits(ScoredRetention start, std::vector<bool> tabu = {});
  // Where recomputed copies held for later events make the peak: drops them, to be recomputed for
  // the first event after it.
  ScoredRetention shedCopies(ScoredRetention start);
  // The two above in turn until the budget is met or neither helps.
  ScoredRetention shrink(ScoredRetention start);
  // Keeps values again, most saved time per byte first, while the budget is met. Needs a feasible
  // start.
  ScoredRetention keepBack(ScoredRetention start);
  // Keeps only what crosses `segments` - 1 cuts of each phase (Chen's segments on a graph).
  Retention segmentSeed(std::size_t segments) const;
  // The best of retentions at rising prices per byte, by bisection, with `free` values costing
  // nothing.
  ScoredRetention searchPrices(const std::vector<bool>& free);
  // Those that make values for events after them.
  const std::vector<ForwardPhase>& phases() const { return phases_; }
  // Is it needed past its own phase?
  bool wantedByEvents(ValueId value) const;
  // Random moves, by class of identical blocks or by value, with a threshold that falls from
  // `slack`, a share of the present cost, to nothing until `work` steps are spent.
  ScoredRetention localSearch(ScoredRetention start, std::int64_t work, double slack);

  // Large neighbourhoods: forces a few values to be kept or dropped, meets the budget again with
  // the rest and keeps back what fits. Until `work` steps are spent.
  ScoredRetention ruinAndRecreate(ScoredRetention start, std::int64_t work, double slack);
  // Both searches in turn, sharing `work`, from wide to narrow slacks until one finds nothing.
  ScoredRetention improve(ScoredRetention start, std::int64_t work);

  PlanResult result(const ScoredRetention& scored, const std::string& planner);
  // Schedule steps built and simulated so far.
  std::int64_t workDone() const { return work_; }
  // Is the deadline past, or are many more steps simulated than any search should need?
  bool late() const;

 private:
  // One search's share of the work, the moves that it may make with it, and its first slack.
  struct Effort {
    std::int64_t work;
    std::size_t moves;
    double slack;
  };
  struct Move {
    std::vector<std::pair<ValueId, bool>> keep;
    std::vector<ValueId> flip_memo;
    std::vector<std::pair<ValueId, OpId>> memo_from;
  };

  // Takes each move's result that is acceptable from where it is; the best one met.
  ScoredRetention walk(ScoredRetention start, const Effort& effort,
                       const std::function<ScoredRetention(const Retention&)>& move);
  void findPhases();
  void keepAtCuts(const ForwardPhase& phase, std::size_t segments, Retention& retention) const;
  std::vector<ValueId> dropCandidates(const ScoredRetention& scored, const std::vector<bool>& tabu);
  std::pair<std::vector<ValueId>, OpId> copiesAtPeak(const ScoredRetention& scored);
  ScoredRetention keepBack(ScoredRetention start, std::vector<bool> tabu, int most_failures);
  void ruin(Retention& retention, std::vector<bool>& forced);
  ScoredRetention recreate(Retention retention, const std::vector<bool>& forced);
  ScoredRetention ruinOnce(const Retention& retention);
  ScoredRetention moveOnce(const Retention& retention);
  Move proposeMove(const Retention& retention);
  void proposeClassMove(Move& move, std::size_t which);
  bool acceptable(const ScoredRetention& next, const ScoredRetention& now, double slack) const;
  std::size_t pick(std::size_t size) { return static_cast<std::size_t>(random_() % size); }

  const Graph& graph_;
  Bytes budget_;
  SearchEnd end_;
  std::mt19937_64 random_;
  ScheduleBuilder builder_;
  RecomputeCosts costs_;
  std::int64_t work_ = 0;
  std::vector<OpId> phase_end_;  // per op: where its phase ends; of a backward op the next one
  std::vector<ForwardPhase> phases_;
  std::vector<ValueId> movable_;  // droppable values that some event may need, in program order
  std::vector<std::vector<ValueId>> classes_;  // of movable_, each in program order
};

}  // namespace ebbtide::scheduler
