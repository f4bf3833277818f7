#include "lower_set_dp.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

namespace ebbtide::scheduler {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 4;

// Ranges of t in the first pass, and how many times more there are in each further one.
constexpr std::size_t kFirstSlots = 32, kMoreSlots = 32;

// Extensions that are found once and kept: 144 MB. More are found anew in each pass.
constexpr std::size_t kMostKept = 6'000'000;

constexpr double kNoPath = std::numeric_limits<double>::infinity();

// Prices of a byte, times T(V) over the budget.
constexpr std::size_t kPrices = 12;
using Prices = std::array<double, kPrices>;
constexpr Prices kPriceLadder{0, .03, .06, .12, .2, .35, .6, 1, 1.7, 3, 5, 10};

}  // namespace

// What the memory alone allows, per lower set; states outside it lead nowhere.
struct LowerSetSolver::Bounds {
  std::vector<std::int64_t> least;  // least m of any state; kNever: cannot be reached
  std::vector<std::int64_t> peak;   // of the sequence that has it
  std::vector<std::int64_t> most;   // most m from which V can be reached; -1: from none
  std::int64_t last_most = 0;       // most m of any state before the last segment
  Prices price{};                   // of a byte, in cost
  std::vector<Prices> rest;         // per price the least of cost and memory's price on a way to V

  double restCost(std::size_t set, std::int64_t memory) const;
};

// The states of one lower set while they are found: of each range of cost the one with least m.
class LowerSetSolver::Slots {
 public:
  // Costs from `least` to `least + span`.
  Slots(std::size_t slots, std::int64_t least, std::int64_t span) : least_(least) {
    while (static_cast<std::size_t>(span >> shift_) >= slots) ++shift_;
    states_.resize(static_cast<std::size_t>(span >> shift_) + 1);
    memory_.assign(states_.size(), kNever);
    low_ = states_.size();
  }

  void add(const Front& front, const Extension& step, std::int64_t step_cost,
           std::int64_t most_memory) {
    for (auto it = front.begin(); it != front.end() && it->memory <= most_memory; ++it) {
      const std::int64_t cost = it->cost + step_cost;
      const std::int64_t memory = it->memory + step.memory;
      const auto slot = static_cast<std::size_t>((cost - least_) >> shift_);
      if (memory > memory_[slot]) continue;
      if (memory == memory_[slot] && cost >= states_[slot].cost) continue;
      memory_[slot] = memory;
      states_[slot] = {cost, memory, step.from, static_cast<std::int32_t>(it - front.begin())};
      low_ = std::min(low_, slot);
      high_ = std::max(high_, slot);
    }
  }

  // The states that no other beats in both (end of section 4.2); leaves the slots empty.
  Front take() {
    Front front;
    for (std::size_t slot = low_; slot < states_.size() && slot <= high_; ++slot) {
      const bool better = memory_[slot] < (front.empty() ? kNever : front.back().memory);
      if (better) front.push_back(states_[slot]);
      memory_[slot] = kNever;
    }
    std::reverse(front.begin(), front.end());
    low_ = states_.size();
    high_ = 0;
    return front;
  }

 private:
  std::int64_t least_;
  int shift_ = 0;
  std::vector<std::int64_t> memory_;
  std::vector<State> states_;
  std::size_t low_ = 0, high_ = 0;
};

LowerSetSolver::LowerSetSolver(const LowerSetProblem& problem, const LowerSetLimits& limits)
    : LowerSetSolver(problem, prunedLowerSets(problem, limits.late), limits) {}

LowerSetSolver::LowerSetSolver(const LowerSetProblem& problem, LowerSetFamily family,
                               const LowerSetLimits& limits)
    : problem_(problem), limits_(limits), family_(std::move(family)) {
  largest_peak_ = 3 * family_.back().memory;
  for (const LowerSet& lower : family_) {
    members_.insert(members_.end(), lower.members.begin(), lower.members.end());
    top_.push_back(lower.top);
    memory_.push_back(lower.memory);
    around_.push_back(lower.around);
    largest_peak_ = std::max(largest_peak_, 3 * family_.back().memory + lower.around);
  }
  chooseNarrow();
  measureTimes();
  keepExtensions();
}

// Windows of equal length over the family; of each, the member with the smallest boundary.
void LowerSetSolver::chooseNarrow() {
  const std::size_t inner = family_.size() - 2;
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

void LowerSetSolver::measureTimes() {
  std::int64_t unit = 0;
  for (const std::int64_t time : problem_.time) unit = std::gcd(unit, time);
  unit = std::max<std::int64_t>(unit, 1);
  for (const std::int64_t time : problem_.time) node_time_.push_back(time / unit);
  for (const LowerSet& lower : family_) time_.push_back(lower.time / unit);
}

// With V' = L' \ L, T(V' \ d(L')) = T(L') - T(L) - T(d(L') \ L), since a node of L in the boundary
// of L' is in the boundary of L too and is cached already.
class LowerSetSolver::Extender {
 public:
  Extender(const LowerSetSolver& solver, std::size_t to, std::vector<Extension>& found)
      : solver_(solver), to_(to), upper_(solver.family_[to]), found_(found) {
    for (std::int32_t v : upper_.boundary) {
      const std::size_t word = static_cast<std::size_t>(v) / 64;
      if (boundary_.empty() || boundary_.back().first != word) boundary_.emplace_back(word, 0);
      boundary_.back().second |= std::uint64_t{1} << (v % 64);
    }
  }

  void operator()(std::size_t from) {
    const std::int32_t top = solver_.top_[from];
    if (top >= 0 ? !upper_.has(top) || from == to_ : !upper_.above(solver_.family_[from])) return;
    const std::uint64_t* lower = solver_.members_.data() + from * upper_.members.size();
    Extension step{static_cast<std::int32_t>(from), solver_.time_[to_] - solver_.time_[from], 0};
    for (const auto& [word, bits] : boundary_) {
      for (std::uint64_t rest = bits & ~lower[word]; rest != 0; rest &= rest - 1) {
        const std::size_t v = 64 * word + static_cast<std::size_t>(std::countr_zero(rest));
        step.time -= solver_.node_time_[v];
        step.memory += solver_.problem_.memory[v];
      }
    }
    found_.push_back(step);
  }

 private:
  const LowerSetSolver& solver_;
  std::size_t to_;
  const LowerSet& upper_;
  std::vector<Extension>& found_;
  std::vector<std::pair<std::size_t, std::uint64_t>> boundary_;  // words of its bits
};

void LowerSetSolver::findExtensions(std::size_t to, std::vector<Extension>& found) const {
  Extender extend(*this, to, found);
  const std::size_t near = to - std::min(to, limits_.nearest);
  if (near > 0) extend(0);
  for (std::size_t from : narrow_) {
    if (from >= near) break;
    if (from > 0) extend(from);
  }
  for (std::size_t from = near; from < to; ++from) extend(from);
}

void LowerSetSolver::keepExtensions() {
  const std::size_t pairs = std::min(family_.size(), limits_.nearest) * family_.size() / 2;
  extensions_.reserve(std::min(pairs, kMostKept));
  for (std::size_t to = 0; to < family_.size(); ++to) {
    if (extensions_.size() > kMostKept || limits_.late()) return;
    findExtensions(to, extensions_);
    extensions_end_.push_back(extensions_.size());
  }
}

std::span<const LowerSetSolver::Extension> LowerSetSolver::extensions(
    std::size_t to, std::vector<Extension>& scratch) const {
  if (to < extensions_end_.size()) {
    const std::size_t begin = to == 0 ? 0 : extensions_end_[to - 1];
    return {extensions_.data() + begin, extensions_end_[to] - begin};
  }
  scratch.clear();
  findExtensions(to, scratch);
  return scratch;
}

std::int64_t LowerSetSolver::costOf(const Extension& step, std::size_t to,
                                    const Question& question) const {
  if (question.last_stays && to + 1 == family_.size()) return 0;
  return question.goal == LowerSetGoal::kMostTime ? -step.time : step.time;
}

// Terms (ii) to (iv) of formula (2) for V' = L' \ L.
std::int64_t LowerSetSolver::segmentBytes(std::size_t from, std::size_t to) const {
  return 2 * (memory_[to] - memory_[from]) + around_[to];
}

// Fills in Bounds::least and peak. Is V reached?
bool LowerSetSolver::reach(std::int64_t budget, Bounds& bounds) const {
  bounds.least.assign(family_.size(), kNever);
  bounds.peak.assign(family_.size(), 0);
  bounds.least[0] = 0;
  std::vector<Extension> scratch;
  for (std::size_t to = 1; to < family_.size(); ++to) {
    if (limits_.late()) return false;
    for (const Extension& step : extensions(to, scratch)) {
      const auto from = static_cast<std::size_t>(step.from);
      const std::int64_t needed = bounds.least[from] + segmentBytes(from, to);
      const std::int64_t memory = bounds.least[from] + step.memory;
      if (needed > budget || memory >= bounds.least[to]) continue;
      bounds.least[to] = memory;
      bounds.peak[to] = std::max(bounds.peak[from], needed);
    }
  }
  return bounds.least.back() < kNever;
}

// For any price l >= 0 of a byte, the states (t, m) after L and (t', m') before V' = V \ L' have
//   t' - t >= min over paths of (sum of dt + l dm) - l (m' - m)    and    m' <= Bounds::last_most
void LowerSetSolver::boundRest(const Question& question, Bounds& bounds) const {
  const std::size_t sets = family_.size();
  bounds.most.assign(sets, -1);
  bounds.most.back() = kNever;
  bounds.rest.assign(sets, Prices{});
  for (std::size_t i = 0; i + 1 < sets; ++i) bounds.rest[i].fill(kNoPath);
  const double even =
      (static_cast<double>(time_.back()) + 1) / (static_cast<double>(question.budget) + 1);
  for (std::size_t i = 0; i < kPrices; ++i) bounds.price[i] = even * kPriceLadder[i];
  std::vector<Extension> scratch;
  for (std::size_t to = sets; to-- > 1;) {
    if (bounds.most[to] < bounds.least[to]) continue;
    if (limits_.late()) return;
    for (const Extension& step : extensions(to, scratch)) {
      const auto from = static_cast<std::size_t>(step.from);
      const std::int64_t room = question.budget - segmentBytes(from, to);
      const std::int64_t most = std::min(room, bounds.most[to] - step.memory);
      if (bounds.least[from] > most) continue;
      bounds.most[from] = std::max(bounds.most[from], most);
      if (to + 1 == sets) bounds.last_most = std::max(bounds.last_most, room);
      const double cost = static_cast<double>(costOf(step, to, question));
      const double memory = static_cast<double>(step.memory);
      for (std::size_t i = 0; i < kPrices; ++i) {
        const double rest = bounds.rest[to][i] + cost + bounds.price[i] * memory;
        bounds.rest[from][i] = std::min(bounds.rest[from][i], rest);
      }
    }
  }
}

// Less cost than this no strategy adds to a state of that set and that much memory.
double LowerSetSolver::Bounds::restCost(std::size_t set, std::int64_t memory) const {
  const double room = static_cast<double>(last_most - memory);
  double best = rest[set][0];
  for (std::size_t i = 1; i < kPrices; ++i) best = std::max(best, rest[set][i] - price[i] * room);
  return best;
}

// Algorithm 1, without the states that lead nowhere or to a cost above `cutoff`.
LowerSetSolver::Pass LowerSetSolver::advance(const Question& question, const Bounds& bounds,
                                             std::size_t slots, std::int64_t cutoff) const {
  Pass pass;
  std::vector<Front>& fronts = pass.fronts;
  fronts.resize(family_.size());
  fronts[0].push_back({});
  const std::int64_t all = time_.back();
  pass.ranges = static_cast<std::size_t>(all) >= slots;
  Slots found(slots, question.goal == LowerSetGoal::kMostTime ? -all : 0, all);
  std::vector<Extension> scratch;
  for (std::size_t to = 1; to < family_.size(); ++to) {
    if (limits_.late()) return {};
    if (bounds.most[to] < bounds.least[to]) continue;
    for (const Extension& step : extensions(to, scratch)) {
      const auto from = static_cast<std::size_t>(step.from);
      const std::int64_t room = question.budget - segmentBytes(from, to);
      const std::int64_t most = std::min(room, bounds.most[to] - step.memory);
      pass.work += fronts[from].size();
      if (fronts[from].empty() || fronts[from].front().memory > most) continue;
      found.add(fronts[from], step, costOf(step, to, question), most);
    }
    fronts[to] = found.take();
    if (to + 1 == family_.size()) break;
    std::erase_if(fronts[to], [&](const State& state) {
      // Costs are whole numbers: half a one covers the rounding.
      return static_cast<double>(state.cost) + bounds.restCost(to, state.memory) >
             static_cast<double>(cutoff) + 0.5;
    });
  }
  std::erase_if(fronts.back(), [&](const State& state) { return state.cost > cutoff; });
  return pass;
}

LowerSetPlan LowerSetSolver::traceBack(const std::vector<Front>& fronts) const {
  LowerSetPlan plan;
  plan.feasible = true;
  plan.cached.assign(problem_.time.size(), false);
  plan.segment.assign(problem_.time.size(), 0);
  std::size_t at = family_.size() - 1;
  std::size_t index = fronts[at].size() - 1;  // the least cost
  while (at != 0) {
    const State& state = fronts[at][index];
    const std::size_t from = static_cast<std::size_t>(state.from_set);
    index = static_cast<std::size_t>(state.from_state);
    const std::int64_t needed = fronts[from][index].memory + segmentBytes(from, at);
    plan.peak = std::max(plan.peak, needed);
    for (std::int32_t v : family_[at].boundary) plan.cached[v] = true;
    for (std::size_t v = 0; v < plan.segment.size(); ++v) {
      // Counted from the end: each earlier set shifts its members by one.
      if (family_[at].has(static_cast<std::int32_t>(v))) --plan.segment[v];
    }
    plan.time += family_[at].time - family_[from].time;
    at = from;
    ++plan.segments;
  }
  for (std::size_t v = 0; v < plan.segment.size(); ++v) {
    plan.segment[v] += plan.segments;
    if (plan.cached[v]) plan.time -= problem_.time[v];
  }
  return plan;
}

LowerSetPlan LowerSetSolver::solve(std::int64_t budget, LowerSetGoal goal, bool last_stays) const {
  Bounds bounds;
  const Question question{budget, goal, last_stays};
  if (budget < 0 || !reach(budget, bounds)) return {};
  boundRest(question, bounds);
  // From few ranges of cost to many: the cost found bounds the next pass, which is the cheaper.
  std::vector<Front> best;
  std::int64_t cutoff = kNever;
  for (std::size_t slots = kFirstSlots;; slots *= kMoreSlots) {
    Pass pass = advance(question, bounds, std::min(slots, limits_.time_slots), cutoff);
    if (!pass.fronts.empty() && !pass.fronts.back().empty()) {
      best = std::move(pass.fronts);
      cutoff = best.back().back().cost - 1;
    }
    const bool exact = !pass.ranges || slots >= limits_.time_slots;
    if (best.empty() || exact || pass.work > limits_.most_work / kMoreSlots) break;
  }
  return best.empty() ? LowerSetPlan{} : traceBack(best);
}

std::int64_t LowerSetSolver::smallestBudget() const {
  Bounds bounds;
  std::int64_t below = -1;
  std::int64_t enough = largest_peak_;
  while (enough - below > 1) {
    const std::int64_t middle = below + (enough - below) / 2;
    const bool feasible = reach(middle, bounds);
    if (limits_.late()) break;
    if (feasible) {
      enough = std::min(middle, bounds.peak.back());
    } else {
      below = middle;
    }
  }
  return enough;
}

}  // namespace ebbtide::scheduler
