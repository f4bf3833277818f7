// Which lower set may follow which in a canonical strategy (kusumoto2019, section 3), and what the
// step from one to the other adds to formulas (1) and (2).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "planners/lower_sets/lower_sets.hpp"

namespace ebbtide::scheduler {

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

// From a lower set L to one above it, L'.
struct LowerSetExtension {
  std::int32_t from = 0;
  std::int64_t time = 0;    // T(V' \ d(L')) in units
  std::int64_t memory = 0;  // M(d(L') \ L)
};

class LowerSetExtensions {
 public:
  LowerSetExtensions(const LowerSetProblem& problem, LowerSetFamily family,
                     const LowerSetLimits& limits);

  const LowerSetFamily& family() const { return family_; }
  std::size_t sets() const { return family_.size(); }
  std::int64_t totalTime() const { return time_.back(); }  // T(V) in units of all T_v's divisor

  // Those to a set, by rising `from`, without most of those whose segment alone is over the budget.
  std::span<const LowerSetExtension> to(std::size_t set, std::int64_t budget,
                                        std::vector<LowerSetExtension>& scratch) const;
  // Terms (ii) to (iv) of formula (2) for V' = L' \ L.
  std::int64_t segmentBytes(std::size_t from, std::size_t to) const {
    return 2 * (memory_[to] - memory_[from]) + around_[to];
  }

 private:
  class Extender;

  void chooseNarrow();
  void measureTimes();
  void find(std::size_t to, std::vector<LowerSetExtension>& found) const;
  void keep();

  const LowerSetProblem& problem_;
  LowerSetLimits limits_;
  LowerSetFamily family_;
  std::vector<std::int64_t> memory_, around_, time_;  // of family_, close together; time in units
  std::vector<std::int64_t> largest_memory_;          // of the sets up to this one
  std::vector<std::uint64_t> members_;                // of family_, close together
  std::vector<std::int32_t> top_;
  std::vector<std::int64_t> node_time_;  // in units
  std::vector<LowerSetExtension> kept_;  // to each set in turn, as far as they fit
  std::vector<std::size_t> kept_end_;    // per set; shorter than family_ if they do not
  std::vector<std::size_t> narrow_;      // indices into family_, rising
};

}  // namespace ebbtide::scheduler
