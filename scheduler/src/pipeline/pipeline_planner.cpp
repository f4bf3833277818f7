#include "ebbtide/scheduler/pipeline_planner.hpp"

#include <algorithm>
#include <compare>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "base/deadline.hpp"
#include "ebbtide/scheduler/pipeline_simulator.hpp"
#include "pipeline/least_memory.hpp"
#include "pipeline/pipeline_bound.hpp"
#include "pipeline/pipeline_timeline.hpp"
#include "pipeline/rank_memory.hpp"

namespace ebbtide::scheduler {
namespace {

// Times as many as may pass without a gain: without a deadline it ends all the same.
constexpr std::size_t kMostRounds = 20;

using Slots = std::vector<std::int32_t>;
using Points = std::vector<std::int32_t>;  // of each slot

// An upgrade of a stage's microbatches to a point that replays less.
struct Upgrade {
  std::int32_t stage = 0, from = 0, to = 0;
  double ns_per_byte = 0;
};

// How long a step takes; among equals, replays that nothing hides are told apart. Before that, what
// does not fit.
struct Cost {
  Bytes over_bytes = 0;  // the budgets
  Nanoseconds makespan_ns = 0;
  Nanoseconds critical_ns = 0;  // replays that cannot grow without a longer step

  friend auto operator<=>(const Cost&, const Cost&) = default;
};

class PipelineSearch {
 public:
  PipelineSearch(const PipelineJob& job, const PipelineOptions& options)
      : job_(job),
        options_(options),
        timeline_(job),
        memory_(job),
        random_(options.seed),
        bound_ns_(makespanLowerBound(job)) {
    recompute_.assign(timeline_.actions(), 0);
    ahead_.assign(timeline_.actions(), 0);
    changed_.assign(job.ranks(), true);
    all_.resize(memory_.slots().size());
    std::iota(all_.begin(), all_.end(), 0);
    for (std::size_t slot = 0; slot < memory_.slots().size(); ++slot) {
      choose(static_cast<std::int32_t>(slot), 0);
    }
  }

  PipelinePlan run() {
    PipelinePlan plan;
    plan.bound_ns = bound_ns_;
    std::vector<bool> is_least;
    for (std::size_t rank = 0; rank < job_.ranks(); ++rank) {
      is_least.push_back(makeSmall(job_, rank, memory_));
    }
    small_ = points();
    restore(all_, small_);
    feasible_ = overBytes() == 0;
    plan.method = startBest();
    improve();
    for (std::size_t rank = 0; rank < job_.ranks(); ++rank) {
      const Bytes needed = memory_.peakOf(rank);
      if (needed <= job_.budgets[rank]) continue;
      plan.shortfalls.push_back({static_cast<std::int32_t>(rank), job_.budgets[rank], needed,
                                 is_least[rank] || needed == memory_.leastPeakOf(rank)});
    }
    plan.choices = memory_.choices();
    plan.makespan_ns = runStep();
    return plan;
  }

 private:
  void choose(std::int32_t slot, std::int32_t point) {
    memory_.choose(slot, point);
    const Slot& at = memory_.slots()[slot];
    recompute_[timeline_.numberOf(at.rank, at.backward)] = memory_.choiceOf(slot).recompute_ns;
    changed_[at.rank] = true;
  }
  std::int32_t backwardOf(std::int32_t slot) const {
    return timeline_.numberOf(memory_.slots()[slot].rank, memory_.slots()[slot].backward);
  }
  // What a rank keeps leaves less room for its replays to run ahead.
  Nanoseconds runStep() {
    for (std::size_t rank = 0; rank < job_.ranks(); ++rank) {
      if (!changed_[rank]) continue;
      for (const std::int32_t slot : memory_.slotsOf(rank)) {
        ahead_[backwardOf(slot)] = memory_.aheadOf(slot);
      }
      changed_[rank] = false;
    }
    return timeline_.run(recompute_, ahead_);
  }
  Bytes overBytes() const {
    Bytes over = 0;
    for (std::size_t rank = 0; rank < job_.ranks(); ++rank) {
      over += std::max<Bytes>(0, memory_.peakOf(rank) - job_.budgets[rank]);
    }
    return over;
  }
  Points points() const {
    Points points;
    for (std::size_t slot = 0; slot < memory_.slots().size(); ++slot) {
      points.push_back(memory_.pointOf(static_cast<std::int32_t>(slot)));
    }
    return points;
  }
  void restore(const Slots& slots, const Points& points) {
    for (const std::int32_t slot : slots) choose(slot, points[slot]);
  }
  std::size_t below(std::size_t count) { return random_() % count; }

  // Along the lower hull of each stage's points, what saves the most for a byte first.
  std::vector<Upgrade> upgradesOf(std::size_t rank) const {
    std::vector<Upgrade> upgrades;
    for (std::size_t stage = 0; stage < job_.stages.size(); ++stage) {
      if (job_.stages[stage].rank != static_cast<std::int32_t>(rank)) continue;
      const auto& points = job_.profiles[job_.stages[stage].profile].points;
      std::vector<Upgrade> hull;
      for (auto from = static_cast<std::int32_t>(points.size()) - 1; from > 0; --from) {
        Upgrade next = upgrade(static_cast<std::int32_t>(stage), from, from - 1);
        while (!hull.empty() && hull.back().ns_per_byte <= next.ns_per_byte) {
          next = upgrade(next.stage, hull.back().from, next.to);
          hull.pop_back();
        }
        hull.push_back(next);
      }
      upgrades.insert(upgrades.end(), hull.begin(), hull.end());
    }
    std::stable_sort(upgrades.begin(), upgrades.end(), [](const Upgrade& a, const Upgrade& b) {
      return a.ns_per_byte > b.ns_per_byte;
    });
    return upgrades;
  }
  Upgrade upgrade(std::int32_t stage, std::int32_t from, std::int32_t to) const {
    const auto& points = job_.profileOf(stage).points;
    return {stage, from, to,
            static_cast<double>(points[from].recompute_ns - points[to].recompute_ns) /
                static_cast<double>(points[to].held_bytes - points[from].held_bytes)};
  }

  void apply(const Upgrade& upgrade, const Slots& slots) {
    for (const std::int32_t slot : slots) {
      if (memory_.slots()[slot].stage == upgrade.stage && memory_.pointOf(slot) > upgrade.to &&
          memory_.fits(slot, upgrade.to)) {
        choose(slot, upgrade.to);
      }
    }
  }

  // Upgrades slots in this order as far as the budget goes: by bytes' worth first, or each slot as
  // far as it can at once.
  void fill(const std::vector<Upgrade>& upgrades, const Slots& slots, bool by_worth) {
    if (by_worth) {
      for (const Upgrade& upgrade : upgrades) apply(upgrade, slots);
    }
    for (const std::int32_t slot : slots) {
      for (std::int32_t point = 0; point < memory_.pointOf(slot); ++point) {
        if (memory_.fits(slot, point)) choose(slot, point);
      }
    }
  }

  // Returns which start was the best.
  std::string startBest() {
    std::string found;
    for (std::size_t rank = 0; rank < job_.ranks(); ++rank) upgrades_.push_back(upgradesOf(rank));
    std::optional<std::pair<Cost, Points>> best;
    const auto consider = [&](const std::string& method) {
      const Cost cost = costNow();
      if (best && best->first <= cost) return;
      best = {cost, points()};
      found = method;
    };
    const auto consider_filled = [&](const std::string& method, bool by_worth, bool reversed) {
      restore(all_, small_);
      for (std::size_t rank = 0; rank < job_.ranks(); ++rank) {
        Slots slots = memory_.slotsOf(rank);
        if (reversed) std::reverse(slots.begin(), slots.end());
        fill(upgrades_[rank], slots, by_worth);
      }
      consider(method);
    };
    const auto consider_fills = [&](const std::string& room) {
      consider_filled("by worth, first microbatches first" + room, true, false);
      consider_filled("by worth, last microbatches first" + room, true, true);
      consider_filled("first microbatches first" + room, false, false);
      consider_filled("last microbatches first" + room, false, true);
    };
    consider_fills("");
    considerUniform(consider);
    if (hasRoomToSetAside()) {
      restore(all_, best->second);
      runStep();
      setAside(all_, [this](std::int32_t slot) { return timeline_.waitOf(backwardOf(slot)); });
      consider_fills(", room for replays in waits");
      setAside(all_, [](std::int32_t) { return std::numeric_limits<Nanoseconds>::max(); });
      consider_fills(", room for all replays");
      setAside(all_, [](std::int32_t) { return 0; });
    }
    restore(all_, best->second);
    cost_ = costNow();
    return found;
  }

  // Does it matter how much of a rank's budget its replays find?
  bool hasRoomToSetAside() const {
    return job_.replays_ahead &&
           std::any_of(job_.profiles.begin(), job_.profiles.end(), [](const StageProfile& profile) {
             return std::any_of(
                 profile.points.begin(), profile.points.end(),
                 [](const StagePoint& point) { return point.aheadBytes() > point.backward_bytes; });
           });
  }
  template <typename WaitOf>
  void setAside(const Slots& slots, const WaitOf& waitOf) {
    for (const std::int32_t slot : slots) memory_.setAside(slot, waitOf(slot));
  }

  // One point for the whole job, where each rank can take it.
  template <typename Consider>
  void considerUniform(const Consider& consider) {
    std::int32_t most_points = 0;
    for (const std::int32_t slot : all_) {
      most_points = std::max(most_points, memory_.lastPointOf(slot));
    }
    for (std::int32_t point = 0; feasible_ && point <= most_points; ++point) {
      for (const std::int32_t slot : all_) {
        choose(slot, std::min(point, memory_.lastPointOf(slot)));
      }
      if (overBytes() == 0) consider("uniform");
    }
  }

  Cost costNow() {
    Cost cost;
    if (!feasible_) cost.over_bytes = overBytes();
    cost.makespan_ns = runStep();
    const std::vector<Nanoseconds>& slacks = timeline_.slacks(recompute_, ahead_);
    for (std::size_t i = 0; i < slacks.size(); ++i) {
      if (slacks[i] == 0) cost.critical_ns += recompute_[i];
    }
    return cost;
  }

  // Large neighbourhood search: microbatches that follow each other on a rank give up what they
  // keep, then keep again in another order.
  void improve() {
    const std::size_t rounds =
        std::clamp<std::size_t>(40'000'000 / (timeline_.actions() + 1), 200, 1'000);
    std::size_t in_vain = 0, left = kMostRounds * rounds;
    const bool sets_aside = hasRoomToSetAside();
    while (cost_.critical_ns > 0 && cost_.makespan_ns > bound_ns_ && in_vain < rounds) {
      if (isPast(options_.deadline) || stopped() || left-- == 0) break;
      ++in_vain;
      const Slots slots = neighbourhood();
      const std::int32_t rank = memory_.slots()[slots.front()].rank;
      const Slots& of_rank = memory_.slotsOf(rank);
      const Points before = points();
      const bool set_aside = sets_aside && below(2) == 0;
      if (set_aside) {
        setAside(of_rank, [this](std::int32_t slot) { return timeline_.waitOf(backwardOf(slot)); });
      }
      for (const std::int32_t slot : slots) choose(slot, small_[slot]);
      fill(upgrades_[rank], slots, below(2) == 0);
      if (set_aside) setAside(of_rank, [](std::int32_t) { return 0; });
      if (feasible_ && runStep() > cost_.makespan_ns) {
        restore(slots, before);
      } else if (const Cost cost = costNow(); cost <= cost_) {
        if (cost.over_bytes < cost_.over_bytes || cost.makespan_ns < cost_.makespan_ns) in_vain = 0;
        cost_ = cost;
      } else {
        restore(slots, before);
      }
    }
  }

  bool stopped() const {
    return options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed);
  }

  // Around a replay that lengthens the step, those first that do so.
  Slots neighbourhood() {
    runStep();
    const std::vector<Nanoseconds>& slacks = timeline_.slacks(recompute_, ahead_);
    const auto is_critical = [&](std::int32_t slot) {
      const std::int32_t action = backwardOf(slot);
      return slacks[action] == 0 && recompute_[action] > 0;
    };
    Slots critical;
    for (std::size_t slot = 0; slot < memory_.slots().size(); ++slot) {
      if (is_critical(static_cast<std::int32_t>(slot))) {
        critical.push_back(static_cast<std::int32_t>(slot));
      }
    }
    const std::int32_t centre = critical[below(critical.size())];
    const Slots& of_rank = memory_.slotsOf(memory_.slots()[centre].rank);
    const auto at = static_cast<std::size_t>(std::find(of_rank.begin(), of_rank.end(), centre) -
                                             of_rank.begin());
    const std::size_t reach = 1 + below(std::min<std::size_t>(of_rank.size(), 32));
    const std::size_t first = at > reach ? at - reach : 0;
    const std::size_t last = std::min(of_rank.size(), at + reach + 1);
    Slots slots(of_rank.begin() + static_cast<std::ptrdiff_t>(first),
                of_rank.begin() + static_cast<std::ptrdiff_t>(last));
    for (std::size_t i = slots.size(); i > 1; --i) std::swap(slots[i - 1], slots[below(i)]);
    if (below(2) == 0) std::stable_partition(slots.begin(), slots.end(), is_critical);
    return slots;
  }

  const PipelineJob& job_;
  const PipelineOptions& options_;
  PipelineTimeline timeline_;
  RankMemory memory_;
  std::mt19937_64 random_;
  const Nanoseconds bound_ns_;
  Slots all_;
  bool feasible_ = true;                        // from the start on
  std::vector<Nanoseconds> recompute_, ahead_;  // by the timeline's numbers
  std::vector<bool> changed_;                   // by rank: its part of ahead_ is not of now
  std::vector<std::vector<Upgrade>> upgrades_;  // of each rank
  Points small_;  // of each slot: in the least memory that was found for its rank
  Cost cost_;
};

}  // namespace

PipelinePlan planPipeline(const PipelineJob& job, const PipelineOptions& options) {
  checkJob(job);
  return PipelineSearch(job, options).run();
}

}  // namespace ebbtide::scheduler
