#include "lower_set_dp.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace ebbtide::scheduler {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 4;

// Ranges of t in the first pass, and how many times more there are in each further one.
constexpr std::size_t kFirstSlots = 32, kMoreSlots = 32;

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
  // Per price the least of cost and memory's price on a way from the empty set, and on one to V.
  std::vector<Prices> start, rest;

  double restCost(std::size_t set, std::int64_t memory) const;
  bool mayCost(const Move& move, std::size_t to, std::int64_t cutoff) const;
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

  void add(const Front& front, const Move& move) {
    for (auto it = front.begin(); it != front.end() && it->memory <= move.most; ++it) {
      const std::int64_t cost = it->cost + move.cost;
      const std::int64_t memory = it->memory + move.memory;
      const auto slot = static_cast<std::size_t>((cost - least_) >> shift_);
      if (memory > memory_[slot]) continue;
      if (memory == memory_[slot] && cost >= states_[slot].cost) continue;
      memory_[slot] = memory;
      states_[slot] = {cost, memory, move.from, static_cast<std::int32_t>(it - front.begin())};
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
    : problem_(problem), limits_(limits), extensions_(problem, std::move(family), limits) {
  for (const LowerSet& lower : extensions_.family()) {
    largest_peak_ = std::max(largest_peak_, 3 * extensions_.family().back().memory + lower.around);
  }
}

std::int64_t LowerSetSolver::costOf(const LowerSetExtension& step, std::size_t to,
                                    const Question& question) const {
  if (question.last_stays && to + 1 == extensions_.sets()) return 0;
  return question.goal == LowerSetGoal::kMostTime ? -step.time : step.time;
}

LowerSetSolver::Move LowerSetSolver::moveOf(const LowerSetExtension& step, std::size_t to,
                                            const Question& question, const Bounds& bounds) const {
  const std::int64_t room =
      question.budget - extensions_.segmentBytes(static_cast<std::size_t>(step.from), to);
  return {step.from, costOf(step, to, question), step.memory,
          std::min(room, bounds.most[to] - step.memory)};
}

// Fills in Bounds::least and peak. Is V reached?
bool LowerSetSolver::reach(std::int64_t budget, Bounds& bounds) const {
  bounds.least.assign(extensions_.sets(), kNever);
  bounds.peak.assign(extensions_.sets(), 0);
  bounds.least[0] = 0;
  std::vector<LowerSetExtension> scratch;
  for (std::size_t to = 1; to < extensions_.sets(); ++to) {
    if (limits_.late()) return false;
    for (const LowerSetExtension& step : extensions_.to(to, budget, scratch)) {
      const auto from = static_cast<std::size_t>(step.from);
      const std::int64_t needed = bounds.least[from] + extensions_.segmentBytes(from, to);
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
  const std::size_t sets = extensions_.sets();
  bounds.most.assign(sets, -1);
  bounds.most.back() = kNever;
  bounds.rest.assign(sets, Prices{});
  for (std::size_t i = 0; i + 1 < sets; ++i) bounds.rest[i].fill(kNoPath);
  const double even = (static_cast<double>(extensions_.totalTime()) + 1) /
                      (static_cast<double>(question.budget) + 1);
  for (std::size_t i = 0; i < kPrices; ++i) bounds.price[i] = even * kPriceLadder[i];
  std::vector<LowerSetExtension> scratch;
  for (std::size_t to = sets; to-- > 1;) {
    if (bounds.most[to] < bounds.least[to]) continue;
    if (limits_.late()) return;
    for (const LowerSetExtension& step : extensions_.to(to, question.budget, scratch)) {
      const auto from = static_cast<std::size_t>(step.from);
      const Move move = moveOf(step, to, question, bounds);
      if (bounds.least[from] > move.most) continue;
      bounds.most[from] = std::max(bounds.most[from], move.most);
      if (to + 1 == sets) bounds.last_most = std::max(bounds.last_most, move.most);
      const double cost = static_cast<double>(move.cost);
      const double memory = static_cast<double>(move.memory);
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

// Can a strategy that takes this move cost as little as `cutoff`?
bool LowerSetSolver::Bounds::mayCost(const Move& move, std::size_t to, std::int64_t cutoff) const {
  const Prices& before = start[static_cast<std::size_t>(move.from)];
  const double over = static_cast<double>(move.memory - last_most);
  double through = -kNoPath;
  for (std::size_t i = 0; i < kPrices; ++i) {
    through = std::max(through, before[i] + rest[to][i] + price[i] * over);
  }
  // Costs are whole numbers: half a one covers the rounding.
  return through + static_cast<double>(move.cost) <= static_cast<double>(cutoff) + 0.5;
}

// One state for each lower set and price, the one of least cost and memory's price; each leads to
// V, since none is above Bounds::most. Fills in Bounds::start.
LowerSetSolver::Pass LowerSetSolver::descend(const Question& question, Bounds& bounds) const {
  Pass pass;
  std::vector<Front>& fronts = pass.fronts;
  fronts.resize(extensions_.sets());
  fronts[0].resize(kPrices);
  Prices unknown;
  unknown.fill(kNoPath);
  bounds.start.assign(extensions_.sets(), unknown);
  bounds.start[0].fill(0);
  std::vector<LowerSetExtension> scratch;
  for (std::size_t to = 1; to < extensions_.sets(); ++to) {
    if (limits_.late()) return {};
    if (bounds.most[to] < bounds.least[to]) continue;
    Prices& start = bounds.start[to];
    Prices value = unknown;
    Front found(kPrices, State{.memory = kNever});
    for (const LowerSetExtension& step : extensions_.to(to, question.budget, scratch)) {
      const auto from = static_cast<std::size_t>(step.from);
      const Move move = moveOf(step, to, question, bounds);
      if (bounds.least[from] > move.most) continue;
      const double cost = static_cast<double>(move.cost);
      const double memory = static_cast<double>(move.memory);
      const Prices& before = bounds.start[from];
      for (std::size_t i = 0; i < kPrices; ++i) {
        start[i] = std::min(start[i], before[i] + cost + bounds.price[i] * memory);
      }
      for (std::size_t i = 0; i < fronts[from].size(); ++i) {
        const State& state = fronts[from][i];
        if (state.memory > move.most) continue;
        const std::int64_t sum = state.memory + move.memory;
        const double its = static_cast<double>(state.cost + move.cost) +
                           bounds.price[i] * static_cast<double>(sum);
        if (its >= value[i]) continue;
        value[i] = its;
        found[i] = {state.cost + move.cost, sum, move.from, static_cast<std::int32_t>(i)};
      }
    }
    fronts[to] = std::move(found);
  }
  Front& last = fronts.back();
  std::erase_if(last, [](const State& state) { return state.memory == kNever; });
  std::sort(last.begin(), last.end(),
            [](const State& a, const State& b) { return a.cost > b.cost; });
  return pass;
}

LowerSetSolver::Moves LowerSetSolver::movesBelow(const Question& question, const Bounds& bounds,
                                                 std::int64_t cutoff) const {
  Moves moves;
  std::vector<LowerSetExtension> scratch;
  for (std::size_t to = 0; to < extensions_.sets(); ++to) {
    if (to > 0 && bounds.most[to] >= bounds.least[to] && !limits_.late()) {
      for (const LowerSetExtension& step : extensions_.to(to, question.budget, scratch)) {
        const Move move = moveOf(step, to, question, bounds);
        if (bounds.least[static_cast<std::size_t>(step.from)] > move.most) continue;
        if (bounds.mayCost(move, to, cutoff)) moves.all.push_back(move);
      }
    }
    moves.end.push_back(moves.all.size());
  }
  return moves;
}

void LowerSetSolver::keepBelow(const Bounds& bounds, std::int64_t cutoff, Moves& moves) const {
  std::size_t kept = 0, next = 0;
  for (std::size_t to = 0; to < moves.end.size(); ++to) {
    for (; next < moves.end[to]; ++next) {
      if (bounds.mayCost(moves.all[next], to, cutoff)) moves.all[kept++] = moves.all[next];
    }
    moves.end[to] = kept;
  }
  moves.all.resize(kept);
}

// Algorithm 1, without the states that lead nowhere or to a cost above `cutoff`.
LowerSetSolver::Pass LowerSetSolver::advance(const Question& question, const Bounds& bounds,
                                             const Moves& moves, std::size_t slots,
                                             std::int64_t cutoff) const {
  Pass pass;
  std::vector<Front>& fronts = pass.fronts;
  fronts.resize(extensions_.sets());
  fronts[0].push_back({});
  const std::int64_t all = extensions_.totalTime();
  pass.ranges = static_cast<std::size_t>(all) >= slots;
  Slots found(slots, question.goal == LowerSetGoal::kMostTime ? -all : 0, all);
  for (std::size_t to = 1; to < extensions_.sets(); ++to) {
    if (limits_.late()) return {};
    for (std::size_t i = moves.end[to - 1]; i < moves.end[to]; ++i) {
      const Front& front = fronts[static_cast<std::size_t>(moves.all[i].from)];
      pass.work += front.size();
      if (!front.empty()) found.add(front, moves.all[i]);
    }
    fronts[to] = found.take();
    if (to + 1 == extensions_.sets()) break;
    std::erase_if(fronts[to], [&](const State& state) {
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
  std::size_t at = extensions_.sets() - 1;
  std::size_t index = fronts[at].size() - 1;  // the least cost
  while (at != 0) {
    const State& state = fronts[at][index];
    const std::size_t from = static_cast<std::size_t>(state.from_set);
    index = static_cast<std::size_t>(state.from_state);
    const std::int64_t needed = fronts[from][index].memory + extensions_.segmentBytes(from, at);
    plan.peak = std::max(plan.peak, needed);
    for (std::int32_t v : extensions_.family()[at].boundary) plan.cached[v] = true;
    for (std::size_t v = 0; v < plan.segment.size(); ++v) {
      // Counted from the end: each earlier set shifts its members by one.
      if (extensions_.family()[at].has(static_cast<std::int32_t>(v))) --plan.segment[v];
    }
    plan.time += extensions_.family()[at].time - extensions_.family()[from].time;
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
  Pass best = descend(question, bounds);
  if (!best.reachesAll()) return {};
  std::int64_t cutoff = best.fronts.back().back().cost - 1;
  Moves moves = movesBelow(question, bounds, cutoff);
  // From few ranges of cost to many: the cost found bounds the next pass, which is the cheaper.
  for (std::size_t slots = kFirstSlots;; slots *= kMoreSlots) {
    Pass pass = advance(question, bounds, moves, std::min(slots, limits_.time_slots), cutoff);
    const bool exact = !pass.ranges || slots >= limits_.time_slots;
    const bool costly = pass.work > limits_.most_work / kMoreSlots;
    if (pass.reachesAll()) {
      best = std::move(pass);
      cutoff = best.fronts.back().back().cost - 1;
      keepBelow(bounds, cutoff, moves);
    }
    if (exact || costly || limits_.late()) break;
  }
  return traceBack(best.fronts);
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
