// What a schedule is worth, which of two plans is better, and PlanChoice: the best of several
// schedules of one graph, judged by validator and simulator.
#pragma once

#include <functional>
#include <string>
#include <tuple>

#include "base/search_end.hpp"
#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

// By rising cost: within the budget before beyond it; then less time, or less peak where both are
// beyond it.
struct PlanCost {
  bool feasible;
  Bytes peak_bytes;
  Nanoseconds recompute_ns;

  friend bool operator<(const PlanCost& a, const PlanCost& b) { return a.key() < b.key(); }

 private:
  std::tuple<bool, std::int64_t, std::int64_t> key() const {
    return feasible ? std::tuple(false, recompute_ns, peak_bytes)
                    : std::tuple(true, peak_bytes, recompute_ns);
  }
};

// The plan of a legal schedule, with peak and time as simulate() says. Optimal where it replays
// nothing.
PlanResult judgedPlan(const Graph& graph, Bytes budget_bytes, Schedule schedule,
                      std::string planner);

inline bool betterPlan(const PlanResult& a, const PlanResult& b) {
  return PlanCost{a.feasible, a.peak_bytes, a.recompute_ns} <
         PlanCost{b.feasible, b.peak_bytes, b.recompute_ns};
}

// What one construction may take.
struct WorkLimit {
  std::size_t most_runs;  // in its schedule
  SearchEnd end = {};

  bool late() const { return end.reached(); }
};

class PlanChoice {
 public:
  // Begins with the schedule that keeps everything.
  PlanChoice(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options,
             std::string planner);

  // Takes the schedule if it is better and legal. Returns its peak.
  Bytes consider(Schedule schedule);
  const PlanResult& best() const { return best_; }
  bool feasible() const { return best_.feasible; }
  Bytes keepPeak() const { return keep_peak_; }
  bool late() const { return end_.reached(); }
  // For constructions that follow a limit on live bytes, not quite what the simulator counts: the
  // budget and limits close below it, then, if none of these fits, the smallest limit that is met.
  void searchLimits(const std::function<Schedule(Bytes limit_bytes)>& construct);
  PlanResult take() { return std::move(best_); }

 private:
  const Graph& graph_;
  Bytes budget_;
  SearchEnd end_;
  PlanResult best_;
  Bytes keep_peak_;
};

}  // namespace ebbtide::scheduler
