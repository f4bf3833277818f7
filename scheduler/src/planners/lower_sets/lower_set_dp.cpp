#include "planners/lower_sets/lower_set_dp.hpp"

#include <algorithm>
#include <utility>

#include "planners/lower_sets/lower_set_bounds.hpp"

namespace ebbtide::scheduler {
namespace {

// Ranges of t in the first pass, and how many times more there are in each further one.
constexpr std::size_t kFirstSlots = 32, kMoreSlots = 32;

}  // namespace

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
