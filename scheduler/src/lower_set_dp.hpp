// The lower-set dynamic program of kusumoto2019 in the paper's own model (sections 3 and 4): nodes
// with a forward time T_v and a size M_v, budgets on the peak of formula (2), no liveness analysis.
// Exact on the family of lower sets that it is given; all of them make it the program of section
// 4.2, the pruned ones that of 4.3.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "lower_sets.hpp"

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

// These bound the work on large graphs; they cost quality, never legality.
struct LowerSetLimits {
  // States of one lower set are told apart by this many equal ranges of t. Exact if T(V), in units
  // of the greatest common divisor of all T_v, is less.
  std::size_t time_slots = 65536;
  // States that a pass with more ranges may be expected to meet; one that might meet more is not
  // tried.
  std::size_t most_work = std::numeric_limits<std::size_t>::max();
  // A lower set follows one of this many largest ones below it, or one of the `narrow` ones, which
  // have the smallest boundaries of as many windows of the family. Exact if the family is not
  // larger than `nearest`.
  std::size_t nearest = 1'000'000;
  std::size_t narrow = 0;
  // Asked now and then. Once true, the pruned family holds V alone and nothing more is solved.
  std::function<bool()> late = [] { return false; };
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
  std::int64_t largestPeak() const { return largest_peak_; }    // no sequence needs more
  std::size_t lowerSets() const { return family_.size() - 1; }  // but the empty one

 private:
  // A state (L, t, m) of the program and the one that it extends.
  struct State {
    std::int64_t cost = 0;  // t in units of all T_v's common divisor, or -t for kMostTime
    std::int64_t memory = 0;
    std::int32_t from_set = 0, from_state = 0;
  };
  using Front = std::vector<State>;  // none beats another in both; rising memory, falling cost
  // From a lower set to one above it.
  struct Extension {
    std::int32_t from = 0;
    std::int64_t time = 0;    // T(V' \ d(L')) in units
    std::int64_t memory = 0;  // M(d(L') \ L)
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
  };
  struct Bounds;
  class Slots;
  class Extender;

  void chooseNarrow();
  void measureTimes();
  void findExtensions(std::size_t to, std::vector<Extension>& found) const;
  void keepExtensions();
  std::span<const Extension> extensions(std::size_t to, std::vector<Extension>& scratch) const;
  std::int64_t segmentBytes(std::size_t from, std::size_t to) const;
  std::int64_t costOf(const Extension& step, std::size_t to, const Question& question) const;
  bool reach(std::int64_t budget, Bounds& bounds) const;
  void boundRest(const Question& question, Bounds& bounds) const;
  Pass advance(const Question& question, const Bounds& bounds, std::size_t slots,
               std::int64_t cutoff) const;
  LowerSetPlan traceBack(const std::vector<Front>& fronts) const;

  const LowerSetProblem& problem_;
  LowerSetLimits limits_;
  LowerSetFamily family_;
  std::vector<std::int64_t> memory_, around_, time_;  // of family_, close together; time in units
  std::vector<std::uint64_t> members_;                // of family_, close together
  std::vector<std::int32_t> top_;
  std::vector<std::int64_t> node_time_;      // in units
  std::vector<Extension> extensions_;        // to each set in turn, as far as they fit
  std::vector<std::size_t> extensions_end_;  // per set; shorter than family_ if they do not
  std::vector<std::size_t> narrow_;          // indices into family_, rising
  std::int64_t largest_peak_ = 0;
};

}  // namespace ebbtide::scheduler
