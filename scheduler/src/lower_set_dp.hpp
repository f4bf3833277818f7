// The lower-set dynamic program of kusumoto2019 in the paper's own model (sections 3 and 4): nodes
// with a forward time T_v and a size M_v, budgets on the peak of formula (2), no liveness analysis.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace ebbtide::scheduler {

struct LowerSetProblem {
  std::vector<std::int64_t> time;    // T_v >= 0
  std::vector<std::int64_t> memory;  // M_v >= 0
  std::vector<std::vector<std::int32_t>>
      next;  // edges v -> w with v < w (nodes are in program order)
};

enum class LowerSetGoal {
  kLeastTime,  // time-centric: least recompute time within the budget (section 4.2)
  kMostTime,   // memory-centric: most recompute time within it, for coarse partitions (section 4.4)
};

struct LowerSetPlan {
  bool feasible = false;
  std::int64_t peak = 0;     // max over i of M(i), formula (2)
  std::int64_t time = 0;     // formula (1)
  std::vector<bool> cached;  // U_k: in the boundary of some lower set of the sequence
  std::vector<bool> last;    // V_k, the nodes after the last cached boundary
};

// The family is the pruned one, L^v for every node v (section 4.3), and the whole of V. Two limits
// bound the work on large graphs; they cost quality, never legality.
struct LowerSetLimits {
  // States of one lower set are told apart by this many equal ranges of m; exact for budgets below
  // it.
  std::size_t memory_ranges = 4096;
  // A lower set follows one of this many largest ones below it, or one of the `narrow` ones, which
  // have the smallest boundaries of as many windows of the family. Exact if the family is not
  // larger than `nearest`.
  std::size_t nearest = 4096;
  std::size_t narrow = 0;
  // Asked now and then. Once true, the family holds V alone and nothing more is solved.
  std::function<bool()> late = [] { return false; };
};

class LowerSetSolver {
 public:
  explicit LowerSetSolver(const LowerSetProblem& problem, const LowerSetLimits& limits = {});

  LowerSetPlan solve(std::int64_t budget, LowerSetGoal goal) const;
  // The least budget for which a sequence within the family exists, by bisection (section 5.1).
  std::int64_t smallestBudget() const;
  std::int64_t largestPeak() const { return largest_peak_; }  // no sequence needs more

 private:
  using Bits = std::vector<std::uint64_t>;
  struct LowerSet {
    Bits members;
    std::vector<std::int32_t> boundary;  // the nodes of L with an edge out of L
    std::size_t size = 0;
    std::int64_t time = 0, memory = 0;  // T(L), M(L)
    std::int64_t around =
        0;  // M(d+(L) \ L) + M(d-(d+(L)) \ L), terms (iii) and (iv) of formula (2)
  };
  static constexpr std::int32_t kEmpty = -1;
  struct Cell {  // one state (L, t, m) and where it came from
    std::int64_t time = 0, memory = 0, peak = 0;
    std::int32_t from_set = kEmpty, from_cell = 0;
  };

  using Front = std::vector<Cell>;

  void buildFamily();
  void finishSet(LowerSet& set) const;
  void chooseNarrow();
  bool contains(const LowerSet& larger, const LowerSet& smaller) const;
  void extend(std::size_t from, std::size_t to, std::int64_t budget, LowerSetGoal goal,
              const std::vector<Front>& fronts, Front& slots) const;
  static Front prune(const Front& slots, LowerSetGoal goal);
  LowerSetPlan solve(std::int64_t budget, LowerSetGoal goal, std::size_t ranges) const;
  LowerSetPlan traceBack(const std::vector<Front>& fronts) const;

  const LowerSetProblem& problem_;
  LowerSetLimits limits_;
  std::vector<std::vector<std::int32_t>> previous_;
  std::vector<LowerSet> family_;     // the empty set first, V last, smaller before larger
  std::vector<std::size_t> narrow_;  // indices into family_, rising
  std::int64_t largest_peak_ = 0;
};

}  // namespace ebbtide::scheduler
