// ReplaySearch: simulated annealing over the replays of a schedule. Every state is legal; what it
// may be is too large, and each byte over the budget has a price in nanoseconds that is adjusted
// until about half of the states fit.
#pragma once

#include <cstdint>
#include <vector>

#include "base/search_end.hpp"
#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/schedule.hpp"
#include "search/plan_choice.hpp"
#include "search/replay_timeline.hpp"

namespace ebbtide::scheduler {

struct ReplaySearchOptions {
  Bytes budget_bytes = 0;
  int intervals = 6;  // copies of each value, the first one included (C_v of moccasin2023)
  std::uint64_t seed = 0;
  SearchEnd end = {};
};

class ReplaySearch {
 public:
  ReplaySearch(const Graph& graph, const ReplaySearchOptions& options);

  // Takes over the replays of a schedule and counts it as found if it is the best so far.
  void startFrom(const Schedule& schedule);
  // Drops values from nothing replayed until the budget is met.
  void construct();
  // Anneals from the best state found, from `heat` times a typical replay's duration downwards.
  void anneal(std::int64_t moves, double heat);

  bool hasCandidates() const { return !candidates_.empty(); }  // else there is nothing to search
  bool feasible() const { return best_peak_ <= options_.budget_bytes; }
  Bytes peak() const { return best_peak_; }
  Nanoseconds replayNs() const { return best_ns_; }
  PlanCost cost() const { return costOf(best_peak_, best_ns_); }
  Schedule schedule();  // the best one
  bool late() const { return options_.end.reached(); }

 private:
  struct Change {
    RunKey replay;
    bool inserted;
  };

  std::uint64_t random();
  std::size_t pick(std::size_t size) {
    return static_cast<std::size_t>((random() >> 32) * size >> 32);
  }
  bool chance(unsigned percent) { return pick(100) < percent; }
  double uniform() { return static_cast<double>(random() >> 11) * 0x1p-53; }

  double energy() const;
  bool insert(RunKey replay);
  bool remove(RunKey replay);
  void undo();
  void restore(const std::vector<RunKey>& replays);
  void propose();
  RunKey replayAfter(ValueId value, RunKey over);
  bool relieve(int choices);
  bool removeOne();
  bool shiftOne();
  bool swapSome();
  void deepen(RunKey replay, RunKey over);
  void dropIdle(RunKey reader);
  PlanCost costOf(Bytes peak, Nanoseconds ns) const {
    return {peak <= options_.budget_bytes, peak, ns};
  }
  bool improves() const { return costOf(timeline_.peak(), timeline_.replayNs()) < cost(); }
  void remember();
  void adjustPrice();

  const Graph& graph_;
  ReplaySearchOptions options_;
  ReplayTimeline timeline_;
  std::vector<ValueId> candidates_;  // values that a replay can make
  double typical_ns_ = 1;            // mean duration of their producers
  std::vector<Change> changes_;      // of the move at hand
  std::size_t deepest_ = 0;          // changes that a cone may bring the move to
  std::vector<RunKey> best_;
  Bytes best_peak_;
  Nanoseconds best_ns_ = 0;
  double first_price_ = 0, price_ = 0;  // nanoseconds per byte over the budget
  int fitting_ = 0, watched_ = 0;
  std::uint64_t state_;
};

}  // namespace ebbtide::scheduler
