#include "pipeline/rank_memory.hpp"

#include <algorithm>

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
      usage_[rank][i] = before;
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
}

bool RankMemory::fits(std::int32_t slot, std::int32_t point) const {
  const Slot& at = slots_[slot];
  const std::vector<Bytes>& usage = usage_[at.rank];
  const StagePoint &now = choiceOf(slot), &then = profileOf(slot).points[point];
  const Bytes budget = job_.budgets[at.rank];
  if (usage[at.forward] + then.forward_bytes - now.forward_bytes > budget ||
      usage[at.backward] + then.backward_bytes - now.backward_bytes > budget) {
    return false;
  }
  const Bytes most = budget - (then.held_bytes - now.held_bytes);
  return std::all_of(usage.begin() + at.forward + 1, usage.begin() + at.backward,
                     [most](Bytes bytes) { return bytes <= most; });
}

void RankMemory::choose(std::int32_t slot, std::int32_t point) {
  const Slot& at = slots_[slot];
  std::vector<Bytes>& usage = usage_[at.rank];
  const StagePoint &now = choiceOf(slot), &then = profileOf(slot).points[point];
  usage[at.forward] += then.forward_bytes - now.forward_bytes;
  for (std::int32_t i = at.forward + 1; i < at.backward; ++i) {
    usage[i] += then.held_bytes - now.held_bytes;
  }
  usage[at.backward] += then.backward_bytes - now.backward_bytes;
  point_[slot] = point;
}

std::size_t RankMemory::peakPosition(std::size_t rank) const {
  return static_cast<std::size_t>(std::max_element(usage_[rank].begin(), usage_[rank].end()) -
                                  usage_[rank].begin());
}

Bytes RankMemory::peakOf(std::size_t rank) const {
  return usage_[rank].empty() ? fixed_[rank] : usage_[rank][peakPosition(rank)];
}

StageChoices RankMemory::choices() const {
  StageChoices choices(job_.stages.size(), std::vector<std::int32_t>(job_.microbatches, 0));
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    choices[slots_[slot].stage][slots_[slot].microbatch] = point_[slot];
  }
  return choices;
}

}  // namespace ebbtide::scheduler
