// The lower-set dynamic program of kusumoto2019 in the paper's own model (sections 3 and 4): nodes
// with a forward time T_v and a size M_v, budgets on the peak of formula (2), no liveness analysis.
// Exact on the family of lower sets that it is given; all of them make it the program of section
// 4.2, the pruned ones that of 4.3.
#pragma once

#include <cstdint>
#include <vector>

#include "planners/lower_sets/lower_set_extensions.hpp"
#include "planners/lower_sets/lower_sets.hpp"

namespace ebbtide::scheduler {

enum class LowerSetGoal {
  kLeastTime,  // time-centric: least recompute time within the budget (section 4.2)
  kMostTime,   // memory-centric: most recompute time within it, for coarse partitions (section 4.4)
};

struct LowerSetPlan {
  bool feasible = false;
  std::int64_t peak = 0;              // max over i of M(i), formula (2)
  std::int64_t time = 0;              // formula (1)
  std::vector<bool> cached;           // U_k: in the boundary of some lower set of the sequence
  std::vector<std::int32_t> segment;  // per node the i of its V_i, from 0
  std::int32_t segments = 0;          // k
};

class LowerSetSolver {
 public:
  // On the pruned family.
  explicit LowerSetSolver(const LowerSetProblem& problem, const LowerSetLimits& limits = {});
  LowerSetSolver(const LowerSetProblem& problem, LowerSetFamily family,
                 const LowerSetLimits& limits = {});

  // With `last_stays` the values of V_k stay for its backward part, which comes at once, and
  // T(V_k) does not count towards the goal; LowerSetPlan::time is formula (1) all the same.
  LowerSetPlan solve(std::int64_t budget, LowerSetGoal goal, bool last_stays = false) const;
  // The least budget for which a sequence within the family exists, by bisection (section 5.1).
  std::int64_t smallestBudget() const;
  std::int64_t largestPeak() const { return largest_peak_; }        // no sequence needs more
  std::size_t lowerSets() const { return extensions_.sets() - 1; }  // but the empty one

 private:
  // A state (L, t, m) of the program and the one that it extends.
  struct State {
    std::int64_t cost = 0;  // t in units of all T_v's common divisor, or -t for kMostTime
    std::int64_t memory = 0;
    std::int32_t from_set = 0, from_state = 0;
  };
  using Front = std::vector<State>;  // none beats another in both; rising memory, falling cost
  // An extension that may be part of an answer to a question.
  struct Move {
    std::int32_t from = 0;
    std::int64_t cost = 0;
    std::int64_t memory = 0;
    std::int64_t most = 0;  // m of the states that it may extend
  };
  struct Moves {
    std::vector<Move> all;
    std::vector<std::size_t> end = {};  // per set that they lead to
  };
  struct Question {
    std::int64_t budget = 0;
    LowerSetGoal goal = LowerSetGoal::kLeastTime;
    bool last_stays = false;
  };
  struct Pass {
    std::vector<Front> fronts;  // empty: the deadline is past
    std::size_t work = 0;       // states met
    bool ranges = false;        // are states told apart by more than one unit?

    bool reachesAll() const { return !fronts.empty() && !fronts.back().empty(); }
  };
  struct Bounds;
  class Slots;

  Move moveOf(const LowerSetExtension& step, std::size_t to, const Question& question,
              const Bounds& bounds) const;
  std::int64_t costOf(const LowerSetExtension& step, std::size_t to,
                      const Question& question) const;
  bool reach(std::int64_t budget, Bounds& bounds) const;
  void boundRest(const Question& question, Bounds& bounds) const;
  Pass descend(const Question& question, Bounds& bounds) const;
  Moves movesBelow(const Question& question, const Bounds& bounds, std::int64_t cutoff) const;
  void keepBelow(const Bounds& bounds, std::int64_t cutoff, Moves& moves) const;
  Pass advance(const Question& question, const Bounds& bounds, const Moves& moves,
               std::size_t slots, std::int64_t cutoff) const;
  LowerSetPlan traceBack(const std::vector<Front>& fronts) const;

  const LowerSetProblem& problem_;
  LowerSetLimits limits_;
  LowerSetExtensions extensions_;
  std::int64_t largest_peak_ = 0;
};

}  // namespace ebbtide::scheduler
