#include "pipeline/rank_memory.hpp"

#include <algorithm>
#include <limits>

namespace ebbtide::scheduler {

using Kind = PipelineAction::Kind;

RankMemory::RankMemory(const PipelineJob& job) : job_(job), of_rank_(job.ranks()) {
  std::vector<std::vector<std::int32_t>> number(job.stages.size(),
                                                std::vector<std::int32_t>(job.microbatches, kNone));
  for (std::size_t rank = 0; rank < job.ranks(); ++rank) {
    usage_.emplace_back(job.order[rank].size(), 0);
    Bytes live = 0;  // all but what points say
    for (const Stage& stage : job.stages) {
      if (stage.rank == static_cast<std::int32_t>(rank)) {
        live += job.profiles[stage.profile].fixed_bytes;
      }
    }
    fixed_.push_back(live);
    for (std::size_t i = 0; i < job.order[rank].size(); ++i) {
      const PipelineAction& action = job.order[rank][i];
      const auto position = static_cast<std::int32_t>(i);
      std::int32_t& slot = number[action.stage][action.microbatch];
      const Bytes before = live;
      if (action.kind == Kind::kForward) {
        slot = static_cast<std::int32_t>(slots_.size());
        of_rank_[rank].push_back(slot);
        slots_.push_back(
            {action.stage, action.microbatch, static_cast<std::int32_t>(rank), position, position});
      } else if (action.kind == Kind::kWeightBackward) {
        live -= job.profileOf(action.stage).weight_held_bytes;
      } else {
        slots_[slot].backward = position;
        if (action.kind == Kind::kInputBackward) {
          live += job.profileOf(action.stage).weight_held_bytes;
        }
      }
      usage_[rank][i] = before + job.besidesBytes(rank, i);
    }
  }
  point_.assign(slots_.size(), 0);
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    const StagePoint& first = profileOf(static_cast<std::int32_t>(slot)).points.front();
    std::vector<Bytes>& usage = usage_[slots_[slot].rank];
    usage[slots_[slot].forward] += first.forward_bytes;
    for (std::int32_t i = slots_[slot].forward + 1; i < slots_[slot].backward; ++i) {
      usage[i] += first.held_bytes;
    }
    usage[slots_[slot].backward] += first.backward_bytes;
  }
  for (const std::vector<Bytes>& usage : usage_) aside_.emplace_back(usage.size(), 0);
  waits_.assign(job.ranks(), 0);
  wait_ns_.assign(slots_.size(), 0);
}

bool RankMemory::fits(std::int32_t slot, std::int32_t point) const {
  const Slot& at = slots_[slot];
  const std::vector<Bytes>& usage = usage_[at.rank];
  const StagePoint &now = choiceOf(slot), &then = profileOf(slot).points[point];
  const Bytes budget = job_.budgets[at.rank];
  if (usage[at.forward] + then.forward_bytes - now.forward_bytes > budget ||
      usage[at.backward] + then.backward_bytes - now.backward_bytes + asideFor(slot, then) >
          budget) {
    return false;
  }
  const Bytes most = budget - (then.held_bytes - now.held_bytes);
  if (waits_[at.rank] > 0) {
    const std::vector<Bytes>& aside = aside_[at.rank];
    for (std::int32_t i = at.forward + 1; i < at.backward; ++i) {
      if (usage[i] + aside[i] > most) return false;
    }
    return true;
  }
  return std::all_of(usage.begin() + at.forward + 1, usage.begin() + at.backward,
                     [most](Bytes bytes) { return bytes <= most; });
}

void RankMemory::choose(std::int32_t slot, std::int32_t point) {
  const Slot& at = slots_[slot];
  const StagePoint &now = choiceOf(slot), &then = profileOf(slot).points[point];
  std::vector<Bytes>& usage = usage_[at.rank];
  usage[at.forward] += then.forward_bytes - now.forward_bytes;
  for (std::int32_t i = at.forward + 1; i < at.backward; ++i) {
    usage[i] += then.held_bytes - now.held_bytes;
  }
  usage[at.backward] += then.backward_bytes - now.backward_bytes;
  aside_[at.rank][at.backward] = asideFor(slot, then);
  point_[slot] = point;
}

void RankMemory::setAside(std::int32_t slot, Nanoseconds wait_ns) {
  const Slot& at = slots_[slot];
  waits_[at.rank] += (wait_ns > 0 ? 1 : 0) - (wait_ns_[slot] > 0 ? 1 : 0);
  wait_ns_[slot] = wait_ns;
  aside_[at.rank][at.backward] = asideFor(slot, choiceOf(slot));
}

Bytes RankMemory::asideFor(std::int32_t slot, const StagePoint& point) const {
  const Nanoseconds ahead = std::min(wait_ns_[slot], point.recompute_ns);
  if (ahead == 0 || job_.stages[slots_[slot].stage].next == kNone) return 0;
  const auto more = static_cast<double>(point.aheadBytes() - point.backward_bytes);
  return static_cast<Bytes>(more * static_cast<double>(ahead) /
                            static_cast<double>(point.recompute_ns));
}

Nanoseconds RankMemory::aheadOf(std::int32_t slot) const {
  const Slot& at = slots_[slot];
  const StagePoint& point = choiceOf(slot);
  if (!job_.replays_ahead || job_.stages[at.stage].next == kNone) return 0;
  const Bytes spare = job_.budgets[at.rank] - usage_[at.rank][at.backward];
  const Bytes more = point.aheadBytes() - point.backward_bytes;
  if (more == 0 || spare >= more) return point.recompute_ns;
  const double all_ns = static_cast<double>(point.recompute_ns);
  return static_cast<Nanoseconds>(all_ns * static_cast<double>(std::max<Bytes>(spare, 0)) /
                                  static_cast<double>(more));
}

std::size_t RankMemory::peakPosition(std::size_t rank) const {
  return static_cast<std::size_t>(std::max_element(usage_[rank].begin(), usage_[rank].end()) -
                                  usage_[rank].begin());
}

Bytes RankMemory::peakOf(std::size_t rank) const {
  return usage_[rank].empty() ? fixed_[rank] : usage_[rank][peakPosition(rank)];
}

PeakLoad RankMemory::loadOf(std::size_t rank) const {
  const Bytes peak = peakOf(rank);
  return {peak,
          static_cast<std::size_t>(std::count(usage_[rank].begin(), usage_[rank].end(), peak))};
}

Bytes RankMemory::leastPeakOf(std::size_t rank) const {
  const auto least = [this](std::int32_t slot, Bytes StagePoint::*bytes) {
    Bytes most = std::numeric_limits<Bytes>::max();
    for (const StagePoint& point : profileOf(slot).points) most = std::min(most, point.*bytes);
    return most;
  };
  std::vector<Bytes> usage = usage_[rank];
  for (const std::int32_t slot : of_rank_[rank]) {
    const Slot& at = slots_[slot];
    const StagePoint& now = choiceOf(slot);
    usage[at.forward] += least(slot, &StagePoint::forward_bytes) - now.forward_bytes;
    for (std::int32_t i = at.forward + 1; i < at.backward; ++i) {
      usage[i] += least(slot, &StagePoint::held_bytes) - now.held_bytes;
    }
    usage[at.backward] += least(slot, &StagePoint::backward_bytes) - now.backward_bytes;
  }
  return usage.empty() ? fixed_[rank] : *std::max_element(usage.begin(), usage.end());
}

StageChoices RankMemory::choices() const {
  StageChoices choices(job_.stages.size(), std::vector<std::int32_t>(job_.microbatches, 0));
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    choices[slots_[slot].stage][slots_[slot].microbatch] = point_[slot];
  }
  return choices;
}

}  // namespace ebbtide::scheduler
