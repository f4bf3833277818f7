#include "cuda/device_statistics.hpp"

namespace ebbtide::plugin::cuda {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

void add(StatArray& stats, bool small, std::int64_t amount) noexcept {
  for (const StatType type :
       {StatType::AGGREGATE, small ? StatType::SMALL_POOL : StatType::LARGE_POOL}) {
    Stat& stat = stats[static_cast<std::size_t>(type)];
    if (amount >= 0) {
      stat.increase(static_cast<std::size_t>(amount));
    } else {
      stat.decrease(static_cast<std::size_t>(-amount));
    }
  }
}

// To a level that was not followed on its way: what came and went in between is not seen.
void moveTo(StatArray& stats, std::int64_t small, std::int64_t large) noexcept {
  const auto at = [&stats](StatType type) -> Stat& {
    return stats[static_cast<std::size_t>(type)];
  };
  add(stats, true, small - at(StatType::SMALL_POOL).current);
  add(stats, false, large - at(StatType::LARGE_POOL).current);
}

template <typename Visit>
void forEach(DeviceStatistics::Torch& torch, Visit&& visit) {
  for (StatArray* stats : {&torch.allocation, &torch.segment, &torch.active, &torch.inactive_split,
                           &torch.allocated_bytes, &torch.reserved_bytes, &torch.active_bytes,
                           &torch.inactive_split_bytes, &torch.requested_bytes}) {
    for (Stat& stat : *stats) visit(stat);
  }
  visit(torch.oversize_allocations);
  visit(torch.oversize_segments);
}

}  // namespace

void DeviceStatistics::onAllocate(const Block& block) noexcept {
  const bool small = block.owner.small;
  add(torch_.allocation, small, 1);
  add(torch_.allocated_bytes, small, block.bytes);
  add(torch_.requested_bytes, small, block.requested_bytes);
  add(torch_.active, small, 1);
  add(torch_.active_bytes, small, block.bytes);
}

void DeviceStatistics::onFree(const Block& block) noexcept {
  const bool small = block.owner.small;
  add(torch_.allocation, small, -1);
  add(torch_.allocated_bytes, small, -block.bytes);
  add(torch_.requested_bytes, small, -block.requested_bytes);
}

void DeviceStatistics::onReusable(const Block& block) noexcept {
  add(torch_.active, block.owner.small, -1);
  add(torch_.active_bytes, block.owner.small, -block.bytes);
}

void DeviceStatistics::onMapped(bool small, Bytes bytes, int runs_more) noexcept {
  add(torch_.reserved_bytes, small, bytes);
  add(torch_.segment, small, runs_more);
}

void DeviceStatistics::onUnmapped(bool small, Bytes bytes, int runs_more) noexcept {
  add(torch_.reserved_bytes, small, -bytes);
  add(torch_.segment, small, runs_more);
}

void DeviceStatistics::onPageCall(bool mapped) noexcept {
  ++(mapped ? torch_.num_device_alloc : torch_.num_device_free);
}

DeviceStatistics::Torch DeviceStatistics::look(const Idle& small, const Idle& large,
                                               std::int64_t synchronizations) noexcept {
  moveTo(torch_.inactive_split, small.stretches, large.stretches);
  moveTo(torch_.inactive_split_bytes, small.bytes, large.bytes);
  synchronizations_ = synchronizations;
  torch_.num_sync_all_streams = synchronizations - synchronizations_before_;
  torch_.max_split_size = -1;  // unlimited, as torch says it
  return torch_;
}

void DeviceStatistics::resetAccumulated() noexcept {
  forEach(torch_, [](Stat& stat) { stat.reset_accumulated(); });
  torch_.num_alloc_retries = 0;
  torch_.num_ooms = 0;
  torch_.num_sync_all_streams = 0;
  torch_.num_device_alloc = 0;
  torch_.num_device_free = 0;
  synchronizations_before_ = synchronizations_;
}

void DeviceStatistics::resetPeaks() noexcept {
  forEach(torch_, [](Stat& stat) { stat.reset_peak(); });
}

}  // namespace ebbtide::plugin::cuda
