#include "pipeline/least_memory.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace ebbtide::scheduler {
namespace {

using Kind = PipelineAction::Kind;
using Slots = std::vector<std::int32_t>;

// Of trials of one point for one microbatch.
constexpr int kMostTrials = 20'000;

class SmallRank {
 public:
  SmallRank(const PipelineJob& job, std::size_t rank, RankMemory& memory)
      : job_(job), rank_(rank), memory_(memory), slots_(memory.slotsOf(rank)) {}

  bool run() {
    chooseAlike();
    if (!fits()) chooseByStage();
    for (int trials = kMostTrials; !fits() && lowerOne(trials);) {
    }
    if (fits()) return true;
    const LowestPeak lowest = lowestPeak(job_, rank_, memory_.peakOf(rank_), job_.budgets[rank_]);
    if (!lowest.complete) return memory_.peakOf(rank_) == memory_.leastPeakOf(rank_);
    if (!lowest.points) return true;
    for (std::size_t i = 0; i < slots_.size(); ++i) memory_.choose(slots_[i], (*lowest.points)[i]);
    return true;
  }

 private:
  bool fits() const { return memory_.peakOf(rank_) <= job_.budgets[rank_]; }

  void choose(const Slots& slots, std::int32_t point) {
    for (const std::int32_t slot : slots) {
      memory_.choose(slot, std::min(point, memory_.lastPointOf(slot)));
    }
  }

  // The last of the points that give these slots the least load, the same for all.
  void chooseBest(const Slots& slots) {
    std::int32_t most_points = 0, best = 0;
    for (const std::int32_t slot : slots) {
      most_points = std::max(most_points, memory_.lastPointOf(slot));
    }
    std::optional<PeakLoad> least;
    for (std::int32_t point = 0; point <= most_points; ++point) {
      choose(slots, point);
      const PeakLoad load = memory_.loadOf(rank_);
      if (least && *least < load) continue;
      least = load;
      best = point;
    }
    choose(slots, best);
  }

  void chooseAlike() { chooseBest(slots_); }

  // One stage after the other, until none changes any more.
  void chooseByStage() {
    std::map<std::int32_t, Slots> of_stage;
    for (const std::int32_t slot : slots_) of_stage[memory_.slots()[slot].stage].push_back(slot);
    if (of_stage.size() < 2) return;
    for (PeakLoad before = memory_.loadOf(rank_); !fits();) {
      for (const auto& [stage, slots] : of_stage) chooseBest(slots);
      const PeakLoad now = memory_.loadOf(rank_);
      if (!(now < before)) return;
      before = now;
    }
  }

  // A microbatch that is there where the rank holds the most.
  bool lowerOne(int& trials) {
    const PeakLoad load = memory_.loadOf(rank_);
    const auto position = static_cast<std::int32_t>(memory_.peakPosition(rank_));
    for (const std::int32_t slot : slots_) {
      const Slot& at = memory_.slots()[slot];
      if (position < at.forward || position > at.backward) continue;
      const std::int32_t now = memory_.pointOf(slot);
      for (std::int32_t point = 0; point <= memory_.lastPointOf(slot); ++point) {
        if (point == now) continue;
        if (--trials < 0) break;
        memory_.choose(slot, point);
        if (memory_.loadOf(rank_) < load) return true;
      }
      memory_.choose(slot, now);
    }
    return false;
  }

  const PipelineJob& job_;
  const std::size_t rank_;
  RankMemory& memory_;
  const Slots& slots_;
};

// From action to action: of all ways to choose the points of what is in flight the one with the
// lowest peak so far.
class LowestPeakSearch {
 public:
  LowestPeakSearch(const PipelineJob& job, std::size_t rank, Bytes below_bytes, Bytes enough_bytes)
      : job_(job), rank_(rank), below_bytes_(below_bytes), enough_bytes_(enough_bytes) {
    for (const Stage& stage : job.stages) {
      if (stage.rank == static_cast<std::int32_t>(rank)) {
        fixed_ += job.profiles[stage.profile].fixed_bytes;
      }
    }
  }

  LowestPeak run(std::size_t most_states) {
    States states = {{{}, {enough_bytes_, 0, kNone}}};
    for (std::size_t at = 0; at < job_.order[rank_].size(); ++at) {
      const PipelineAction& action = job_.order[rank_][at];
      States next;
      for (const auto& [points, state] : states) {
        advance(action, job_.besidesBytes(rank_, at), points, state, next);
        if (next.size() > most_states) return {false, std::nullopt};
      }
      states = std::move(next);
      account(action);
    }
    if (states.empty()) return {};
    return {true, choicesOf(states.begin()->second.last)};
  }

 private:
  struct State {
    Bytes peak_bytes = 0, held_bytes = 0;
    std::int32_t last = kNone;  // index into chosen_
  };
  struct Chosen {
    std::int32_t point, before;
  };
  using InFlight = std::vector<std::int32_t>;  // points, in the order of in_flight_
  using States = std::map<InFlight, State>;

  void advance(const PipelineAction& action, Bytes besides, const InFlight& points, State state,
               States& next) {
    const std::vector<StagePoint>& choices = job_.profileOf(action.stage).points;
    const Bytes live = fixed_ + besides + state.held_bytes;
    if (action.kind == Kind::kForward) {
      for (std::size_t point = 0; point < choices.size(); ++point) {
        if (isOutdone(choices, point, live)) continue;
        State then = state;
        then.peak_bytes = std::max(state.peak_bytes, live + choices[point].forward_bytes);
        then.held_bytes += choices[point].held_bytes;
        if (then.peak_bytes >= below_bytes_) continue;
        InFlight with = points;
        with.push_back(static_cast<std::int32_t>(point));
        if (add(std::move(with), then, next)) {
          chosen_.push_back({static_cast<std::int32_t>(point), state.last});
        }
      }
      return;
    }
    InFlight without = points;
    if (action.kind == Kind::kWeightBackward) {
      state.peak_bytes = std::max(state.peak_bytes, live);
    } else {
      const std::size_t at = placeOf(action);
      const StagePoint& point = choices[points[at]];
      state.peak_bytes = std::max(state.peak_bytes, live - point.held_bytes + point.backward_bytes);
      state.held_bytes -= point.held_bytes;
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (state.peak_bytes < below_bytes_) {
      const auto [there, is_new] = next.try_emplace(std::move(without), state);
      if (!is_new && state.peak_bytes < there->second.peak_bytes) there->second = state;
    }
  }

  // A forward's: true if it is the best way to these points.
  bool add(InFlight points, State& state, States& next) {
    state.last = static_cast<std::int32_t>(chosen_.size());
    const auto [there, is_new] = next.try_emplace(std::move(points), state);
    if (is_new) return true;
    if (there->second.peak_bytes <= state.peak_bytes) return false;
    there->second = state;
    return true;
  }

  // Does one that comes later, and so holds less, take no more anywhere else either?
  bool isOutdone(const std::vector<StagePoint>& points, std::size_t point, Bytes live) const {
    const auto forward = [&](const StagePoint& of) {
      return std::max(enough_bytes_, live + of.forward_bytes);
    };
    return std::any_of(points.begin() + static_cast<std::ptrdiff_t>(point) + 1, points.end(),
                       [&](const StagePoint& later) {
                         return later.backward_bytes <= points[point].backward_bytes &&
                                forward(later) <= forward(points[point]);
                       });
  }

  std::size_t placeOf(const PipelineAction& action) const {
    const auto at =
        std::find(in_flight_.begin(), in_flight_.end(), std::pair{action.stage, action.microbatch});
    return static_cast<std::size_t>(at - in_flight_.begin());
  }

  void account(const PipelineAction& action) {
    const Bytes weights = job_.profileOf(action.stage).weight_held_bytes;
    if (action.kind == Kind::kForward) {
      in_flight_.emplace_back(action.stage, action.microbatch);
    } else if (action.kind == Kind::kWeightBackward) {
      fixed_ -= weights;
    } else {
      in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(placeOf(action)));
      if (action.kind == Kind::kInputBackward) fixed_ += weights;
    }
  }

  std::vector<std::int32_t> choicesOf(std::int32_t last) const {
    std::vector<std::int32_t> points;
    for (; last != kNone; last = chosen_[last].before) points.push_back(chosen_[last].point);
    std::reverse(points.begin(), points.end());
    return points;
  }

  const PipelineJob& job_;
  const std::size_t rank_;
  const Bytes below_bytes_, enough_bytes_;
  Bytes fixed_ = 0;  // that no point changes, with what is held for weights
  std::vector<std::pair<std::int32_t, std::int32_t>> in_flight_;  // stage and microbatch
  std::vector<Chosen> chosen_;
};

}  // namespace

bool makeSmall(const PipelineJob& job, std::size_t rank, RankMemory& memory) {
  return SmallRank(job, rank, memory).run();
}

LowestPeak lowestPeak(const PipelineJob& job, std::size_t rank, Bytes below_bytes,
                      Bytes enough_bytes, std::size_t most_states) {
  return LowestPeakSearch(job, rank, below_bytes, enough_bytes).run(most_states);
}

}  // namespace ebbtide::scheduler
