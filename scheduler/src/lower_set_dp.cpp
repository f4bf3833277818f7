#include "lower_set_dp.hpp"

#include <algorithm>
#include <utility>

namespace ebbtide::scheduler {
namespace {

bool test(const std::vector<std::uint64_t>& bits, std::int32_t node) {
  return (bits[static_cast<std::size_t>(node) / 64] >> (node % 64) & 1) != 0;
}

void set(std::vector<std::uint64_t>& bits, std::int32_t node) {
  bits[static_cast<std::size_t>(node) / 64] |= std::uint64_t{1} << (node % 64);
}

}  // namespace

LowerSetSolver::LowerSetSolver(const LowerSetProblem& problem, const LowerSetLimits& limits)
    : problem_(problem), limits_(limits), previous_(problem.time.size()) {
  for (std::size_t v = 0; v < problem.next.size(); ++v) {
    for (std::int32_t w : problem.next[v]) previous_[w].push_back(static_cast<std::int32_t>(v));
  }
  buildFamily();
  chooseNarrow();
  const LowerSet& whole = family_.back();
  largest_peak_ = 3 * whole.memory;
  for (const LowerSet& lower : family_) {
    largest_peak_ = std::max(largest_peak_, 3 * whole.memory + lower.around);
  }
}

// L^v: v and everything from which v can be reached (section 4.3). With v in program order, the set
// of v is the union of those of its predecessors.
void LowerSetSolver::buildFamily() {
  const std::size_t nodes = problem_.time.size();
  family_.reserve(nodes + 2);
  family_.emplace_back().members.assign((nodes + 63) / 64, 0);
  for (std::size_t v = 0; v < nodes; ++v) {
    if (limits_.late()) {
      family_.resize(1);
      break;
    }
    LowerSet lower;
    lower.members.assign((nodes + 63) / 64, 0);
    for (std::int32_t before : previous_[v]) {
      const Bits& theirs = family_[static_cast<std::size_t>(before) + 1].members;
      for (std::size_t word = 0; word < theirs.size(); ++word) lower.members[word] |= theirs[word];
    }
    set(lower.members, static_cast<std::int32_t>(v));
    family_.push_back(std::move(lower));
  }
  LowerSet& whole = family_.emplace_back();
  whole.members.assign((nodes + 63) / 64, 0);
  for (std::size_t v = 0; v < nodes; ++v) set(whole.members, static_cast<std::int32_t>(v));
  finishSet(whole);  // in any case; the empty set needs nothing
  for (std::size_t i = 1; i + 1 < family_.size(); ++i) {
    if (limits_.late()) {
      family_.erase(family_.begin() + 1, family_.end() - 1);
      break;
    }
    finishSet(family_[i]);
  }
  std::stable_sort(family_.begin(), family_.end(),
                   [](const LowerSet& a, const LowerSet& b) { return a.size < b.size; });
  // L^v may be V itself.
  while (family_.size() > 2 && family_[family_.size() - 2].size == nodes) family_.pop_back();
}

void LowerSetSolver::finishSet(LowerSet& lower) const {
  std::vector<std::int32_t> outside;  // d+(L) \ L
  for (std::size_t v = 0; v < problem_.time.size(); ++v) {
    const std::int32_t node = static_cast<std::int32_t>(v);
    if (!test(lower.members, node)) continue;
    ++lower.size;
    lower.time += problem_.time[v];
    lower.memory += problem_.memory[v];
    const std::size_t before = outside.size();
    for (std::int32_t w : problem_.next[v]) {
      if (!test(lower.members, w)) outside.push_back(w);
    }
    if (outside.size() > before) lower.boundary.push_back(node);
  }
  std::sort(outside.begin(), outside.end());
  outside.erase(std::unique(outside.begin(), outside.end()), outside.end());
  std::vector<std::int32_t> beside;  // d-(d+(L)) \ L
  for (std::int32_t w : outside) {
    lower.around += problem_.memory[w];
    for (std::int32_t v : previous_[w]) {
      if (!test(lower.members, v)) beside.push_back(v);
    }
  }
  // d+(L) holds members of L as well; their predecessors are in L, a lower set, and add nothing.
  std::sort(beside.begin(), beside.end());
  beside.erase(std::unique(beside.begin(), beside.end()), beside.end());
  for (std::int32_t v : beside) lower.around += problem_.memory[v];
}

// Windows of equal length over the family; of each, the member with the smallest boundary.
void LowerSetSolver::chooseNarrow() {
  const std::size_t inner = family_.size() < 2 ? 0 : family_.size() - 2;
  std::vector<std::int64_t> boundary_bytes(family_.size(), 0);
  for (std::size_t i = 0; i < family_.size(); ++i) {
    for (std::int32_t v : family_[i].boundary) boundary_bytes[i] += problem_.memory[v];
  }
  for (std::size_t window = 0; window < limits_.narrow; ++window) {
    const auto begin = boundary_bytes.begin() + 1;
    const auto from = begin + static_cast<std::ptrdiff_t>(window * inner / limits_.narrow);
    const auto to = begin + static_cast<std::ptrdiff_t>((window + 1) * inner / limits_.narrow);
    if (from == to) continue;
    narrow_.push_back(
        static_cast<std::size_t>(std::min_element(from, to) - boundary_bytes.begin()));
  }
}

bool LowerSetSolver::contains(const LowerSet& larger, const LowerSet& smaller) const {
  if (larger.size <= smaller.size) return false;
  for (std::size_t word = 0; word < larger.members.size(); ++word) {
    if ((smaller.members[word] & ~larger.members[word]) != 0) return false;
  }
  return true;
}

// One step of Algorithm 1: from every (L, t, m) to (L', t', m') for one L' above L. With V' = L'
// \ L,
//   T(V' \ d(L')) = T(L') - T(L) - T(d(L') \ L)       m' = m + M(d(L') \ L)
// since a node of L in the boundary of L' is in the boundary of L too and is cached already.
// The last slot is for the state with the least m, the others for the best time of each range of m.
void LowerSetSolver::extend(std::size_t from, std::size_t to, std::int64_t budget,
                            LowerSetGoal goal, const std::vector<Front>& fronts,
                            Front& slots) const {
  const LowerSet& lower = family_[from];
  const LowerSet& upper = family_[to];
  const std::int64_t segment = 2 * (upper.memory - lower.memory) + upper.around;
  if (segment > budget || fronts[from].empty() || !contains(upper, lower)) return;
  std::int64_t time = upper.time - lower.time;
  std::int64_t memory = 0;
  for (std::int32_t v : upper.boundary) {
    if (test(lower.members, v)) continue;
    time -= problem_.time[v];
    memory += problem_.memory[v];
  }
  const std::size_t ranges = slots.size() - 1;
  const bool exact = static_cast<std::uint64_t>(budget) < ranges;
  const double scale = static_cast<double>(ranges) / (static_cast<double>(budget) + 1);
  const auto improves = [goal](const Cell& next, const Cell& old) {
    if (old.from_set == kEmpty) return true;
    if (next.time == old.time) return next.memory < old.memory;
    return (next.time < old.time) == (goal == LowerSetGoal::kLeastTime);
  };
  for (std::size_t i = 0; i < fronts[from].size(); ++i) {
    const Cell& cell = fronts[from][i];
    if (cell.memory + segment > budget) break;  // formula (2); fronts rise in m
    if (cell.memory + memory > budget) break;
    const Cell next{cell.time + time, cell.memory + memory,
                    std::max(cell.peak, cell.memory + segment), static_cast<std::int32_t>(from),
                    static_cast<std::int32_t>(i)};
    const double range = static_cast<double>(next.memory) * scale;
    Cell& slot = slots[exact ? static_cast<std::size_t>(next.memory)
                             : std::min(static_cast<std::size_t>(range), ranges - 1)];
    if (improves(next, slot)) slot = next;
    Cell& least = slots[ranges];
    if (least.from_set == kEmpty || next.memory < least.memory) least = next;
  }
}

// Keeps the states that no other beats in both time and memory (end of section 4.2), in rising
// order of memory.
LowerSetSolver::Front LowerSetSolver::prune(const Front& slots, LowerSetGoal goal) {
  Front front;
  const auto add = [&](const Cell& cell) {
    if (cell.from_set == kEmpty) return;
    const bool better =
        front.empty() || (goal == LowerSetGoal::kLeastTime ? cell.time < front.back().time
                                                           : cell.time > front.back().time);
    if (!better) return;
    if (!front.empty() && front.back().memory == cell.memory) front.pop_back();
    front.push_back(cell);
  };
  add(slots.back());
  for (std::size_t i = 0; i + 1 < slots.size(); ++i) add(slots[i]);
  return front;
}

LowerSetPlan LowerSetSolver::traceBack(const std::vector<Front>& fronts) const {
  LowerSetPlan plan;
  plan.feasible = true;
  std::size_t at = family_.size() - 1;
  std::size_t index = fronts[at].size() - 1;  // the best time
  plan.time = fronts[at][index].time;
  plan.peak = fronts[at][index].peak;
  plan.cached.assign(problem_.time.size(), false);
  plan.last.assign(problem_.time.size(), true);
  for (bool at_end = true; at != 0; at_end = false) {
    const Cell& cell = fronts[at][index];
    for (std::int32_t v : family_[at].boundary) plan.cached[v] = true;
    at = static_cast<std::size_t>(cell.from_set);
    index = static_cast<std::size_t>(cell.from_cell);
    if (!at_end) continue;
    for (std::size_t v = 0; v < plan.last.size(); ++v) {
      plan.last[v] = !test(family_[at].members, static_cast<std::int32_t>(v));
    }
  }
  return plan;
}

LowerSetPlan LowerSetSolver::solve(std::int64_t budget, LowerSetGoal goal) const {
  return solve(budget, goal, limits_.memory_ranges);
}

LowerSetPlan LowerSetSolver::solve(std::int64_t budget, LowerSetGoal goal,
                                   std::size_t ranges) const {
  if (budget < 0) return {};
  std::vector<Front> fronts(family_.size());
  fronts[0].push_back({0, 0, 0, 0, 0});
  Front slots;
  for (std::size_t to = 1; to < family_.size(); ++to) {
    if (limits_.late()) return {};
    slots.assign(ranges + 1, Cell{});
    const std::size_t near = to - std::min(to, limits_.nearest);
    if (near > 0) extend(0, to, budget, goal, fronts, slots);
    for (std::size_t from : narrow_) {
      if (from < near) extend(from, to, budget, goal, fronts, slots);
    }
    for (std::size_t from = near; from < to; ++from) {
      extend(from, to, budget, goal, fronts, slots);
    }
    fronts[to] = prune(slots, goal);
  }
  if (fronts.back().empty()) return {};
  return traceBack(fronts);
}

std::int64_t LowerSetSolver::smallestBudget() const {
  // Feasibility needs only the state with the least m of each set, which one range leaves.
  std::int64_t below = -1;
  std::int64_t enough = largest_peak_;
  while (enough - below > std::max<std::int64_t>(1, enough / 4096)) {
    const std::int64_t middle = below + (enough - below) / 2;
    const LowerSetPlan plan = solve(middle, LowerSetGoal::kLeastTime, 1);
    if (limits_.late()) break;
    if (plan.feasible) {
      enough = std::min(middle, plan.peak);
    } else {
      below = middle;
    }
  }
  return enough;
}

}  // namespace ebbtide::scheduler
