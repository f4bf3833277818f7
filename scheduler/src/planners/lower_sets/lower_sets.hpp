// Lower sets of a graph (kusumoto2019, section 2): L holds every predecessor of its members. The
// programs of section 4 walk over a family of them: all (4.2) or the pruned one (4.3).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace ebbtide::scheduler {

struct LowerSetProblem {
  std::vector<std::int64_t> time;    // T_v >= 0
  std::vector<std::int64_t> memory;  // M_v >= 0
  std::vector<std::vector<std::int32_t>>
      next;  // edges v -> w with v < w (nodes are in program order), each once
};

// d-: the edges the other way round.
std::vector<std::vector<std::int32_t>> previousNodes(const LowerSetProblem& problem);

struct LowerSet {
  std::vector<std::uint64_t> members;  // one bit a node
  std::vector<std::int32_t> boundary;  // the nodes of L with an edge out of L
  std::int32_t top = -1;               // v, if this is L^v: then L^v is within L' iff v is in L'
  std::size_t size = 0;
  std::int64_t time = 0, memory = 0;  // T(L), M(L)
  // M(d+(L) \ L) + M(d-(d+(L)) \ L): terms (iii) and (iv) of formula (2)
  std::int64_t around = 0;

  bool has(std::int32_t node) const {
    return (members[static_cast<std::size_t>(node) / 64] >> (node % 64) & 1) != 0;
  }
  // Is the other one a proper subset of this one?
  bool above(const LowerSet& other) const;
};

// The empty set first, V last, smaller before larger.
using LowerSetFamily = std::vector<LowerSet>;

// L^v for every node v, the empty set and V. Once late() is true: the empty set and V alone.
LowerSetFamily prunedLowerSets(const LowerSetProblem& problem, const std::function<bool()>& late);

// All lower sets; nothing if there are more than `most` or late() becomes true.
std::optional<LowerSetFamily> allLowerSets(const LowerSetProblem& problem, std::size_t most,
                                           const std::function<bool()>& late);

}  // namespace ebbtide::scheduler
