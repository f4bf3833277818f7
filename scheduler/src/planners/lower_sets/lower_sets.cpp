#include "planners/lower_sets/lower_sets.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace ebbtide::scheduler {
namespace {

using Bits = std::vector<std::uint64_t>;
using Edges = std::vector<std::vector<std::int32_t>>;

std::size_t words(const LowerSetProblem& problem) {
  return (problem.time.size() + 63) / 64;
}

void add(Bits& bits, std::int32_t node) {
  bits[static_cast<std::size_t>(node) / 64] |= std::uint64_t{1} << (node % 64);
}

template <typename Visit>
void forEachMember(const Bits& bits, Visit visit) {
  for (std::size_t word = 0; word < bits.size(); ++word) {
    for (std::uint64_t rest = bits[word]; rest != 0; rest &= rest - 1) {
      visit(static_cast<std::int32_t>(64 * word) + std::countr_zero(rest));
    }
  }
}

// Fills in everything but the members; keeps its marks between sets.
class Measure {
 public:
  Measure(const LowerSetProblem& problem, const Edges& previous)
      : problem_(problem), previous_(previous), mark_(problem.time.size(), 0) {}

  void operator()(LowerSet& lower) {
    outside_.clear();
    ++stamp_;
    forEachMember(lower.members, [&](std::int32_t v) {
      ++lower.size;
      lower.time += problem_.time[v];
      lower.memory += problem_.memory[v];
      bool leaves = false;
      for (std::int32_t w : problem_.next[v]) {
        if (lower.has(w)) continue;
        leaves = true;
        if (mark_[w] != stamp_) outside_.push_back(w);
        mark_[w] = stamp_;
      }
      if (leaves) lower.boundary.push_back(v);
    });
    ++stamp_;
    // d+(L) holds members of L as well; their predecessors are in L and add nothing to (iv).
    for (std::int32_t w : outside_) {
      lower.around += problem_.memory[w];
      for (std::int32_t v : previous_[w]) {
        if (!lower.has(v) && mark_[v] != stamp_) lower.around += problem_.memory[v];
        mark_[v] = stamp_;
      }
    }
  }

 private:
  const LowerSetProblem& problem_;
  const Edges& previous_;
  std::vector<std::int32_t> outside_;
  std::vector<std::int64_t> mark_;
  std::int64_t stamp_ = 0;
};

LowerSetFamily emptyAndWhole(const LowerSetProblem& problem, Measure& measure) {
  LowerSetFamily family(2);
  for (LowerSet& lower : family) lower.members.assign(words(problem), 0);
  for (std::size_t v = 0; v < problem.time.size(); ++v) {
    add(family.back().members, static_cast<std::int32_t>(v));
  }
  measure(family.back());
  return family;
}

// Depth first over "without the next node that may come in" and "with it": every leaf is another
// lower set, and none is met twice.
class Enumeration {
 public:
  Enumeration(const LowerSetProblem& problem, const Edges& previous)
      : nodes_(static_cast<std::int32_t>(problem.time.size())), previous_(previous) {}

  std::optional<std::vector<Bits>> run(std::size_t most, const std::function<bool()>& late) const {
    std::vector<Bits> found;
    std::vector<std::pair<std::int32_t, Bits>> open;  // nodes below the first are decided
    open.emplace_back(0, Bits(static_cast<std::size_t>(nodes_ + 63) / 64, 0));
    while (!open.empty()) {
      auto [v, members] = std::move(open.back());
      open.pop_back();
      if (found.size() % 64 == 0 && late()) return std::nullopt;
      for (; v < nodes_; ++v) {
        if (!mayEnter(members, v)) continue;
        open.emplace_back(v + 1, members);  // without v
        add(members, v);
      }
      found.push_back(std::move(members));
      if (found.size() + open.size() > most) return std::nullopt;  // each open one leads to one
    }
    return found;
  }

 private:
  bool mayEnter(const Bits& members, std::int32_t v) const {
    return std::all_of(previous_[v].begin(), previous_[v].end(), [&](std::int32_t u) {
      return (members[static_cast<std::size_t>(u) / 64] >> (u % 64) & 1) != 0;
    });
  }

  std::int32_t nodes_;
  const Edges& previous_;
};

}  // namespace

std::vector<std::vector<std::int32_t>> previousNodes(const LowerSetProblem& problem) {
  Edges previous(problem.next.size());
  for (std::size_t v = 0; v < problem.next.size(); ++v) {
    for (std::int32_t w : problem.next[v]) previous[w].push_back(static_cast<std::int32_t>(v));
  }
  return previous;
}

bool LowerSet::above(const LowerSet& other) const {
  if (size <= other.size) return false;
  if (other.top >= 0) return has(other.top);
  for (std::size_t word = 0; word < members.size(); ++word) {
    if ((other.members[word] & ~members[word]) != 0) return false;
  }
  return true;
}

// With v in program order, the set of v is the union of those of its predecessors.
LowerSetFamily prunedLowerSets(const LowerSetProblem& problem, const std::function<bool()>& late) {
  const std::size_t nodes = problem.time.size();
  const Edges previous = previousNodes(problem);
  Measure measure(problem, previous);
  LowerSetFamily family = emptyAndWhole(problem, measure);
  LowerSetFamily sets(nodes);
  for (std::size_t v = 0; v < nodes; ++v) {
    if (late()) return family;
    LowerSet& lower = sets[v];
    lower.members.assign(words(problem), 0);
    lower.top = static_cast<std::int32_t>(v);
    for (std::int32_t before : previous[v]) {
      const Bits& theirs = sets[static_cast<std::size_t>(before)].members;
      for (std::size_t word = 0; word < theirs.size(); ++word) lower.members[word] |= theirs[word];
    }
    add(lower.members, lower.top);
  }
  for (LowerSet& lower : sets) {
    if (late()) return family;
    measure(lower);
  }
  std::stable_sort(sets.begin(), sets.end(),
                   [](const LowerSet& a, const LowerSet& b) { return a.size < b.size; });
  while (!sets.empty() && sets.back().size == nodes) sets.pop_back();  // L^v may be V itself
  family.insert(family.begin() + 1, std::make_move_iterator(sets.begin()),
                std::make_move_iterator(sets.end()));
  return family;
}

std::optional<LowerSetFamily> allLowerSets(const LowerSetProblem& problem, std::size_t most,
                                           const std::function<bool()>& late) {
  const Edges previous = previousNodes(problem);
  if (previous.empty()) return prunedLowerSets(problem, late);
  auto found = Enumeration(problem, previous).run(most, late);
  if (!found) return std::nullopt;
  Measure measure(problem, previous);
  LowerSetFamily family(found->size());
  for (std::size_t i = 0; i < family.size(); ++i) {
    if (i % 64 == 0 && late()) return std::nullopt;
    family[i].members = std::move((*found)[i]);
    measure(family[i]);
  }
  std::stable_sort(family.begin(), family.end(),
                   [](const LowerSet& a, const LowerSet& b) { return a.size < b.size; });
  return family;
}

}  // namespace ebbtide::scheduler
