#include "ebbtide/allocator/device_memory.hpp"

#include <unistd.h>

#include <algorithm>

namespace ebbtide::allocator {

DeviceMemory::DeviceMemory(std::unique_ptr<AddressSpace> space,
                           std::unique_ptr<StreamEvents> events, const Options& options)
    : space_(std::move(space)),
      events_(std::move(events)),
      pool_(*space_, *events_, tracker_,
            {.alignment_bytes = options.alignment_bytes,
             .reserve_bytes = options.reserve_bytes,
             .longest_wait = options.longest_wait}),
      placed_(*space_, *events_, tracker_, pool_, options.reserve_bytes),
      recording_(placed_),
      observed_(recording_),
      reclaiming_(observed_, tracker_, pool_) {}

DeviceMemory::~DeviceMemory() = default;

void* DeviceMemory::allocate(std::size_t bytes, Stream stream) noexcept {
  return reclaiming_.allocate(bytes, stream);
}
void DeviceMemory::deallocate(void* block) noexcept {
  observed_.deallocate(block);
}
Bytes DeviceMemory::blockBytes(const void* block) const noexcept {
  return placed_.blockBytes(block);
}
void DeviceMemory::recordStream(void* block, Stream stream) noexcept {
  placed_.recordStream(block, stream);
}

bool DeviceMemory::owns(const void* pointer) const noexcept {
  return placed_.owns(pointer) || pool_.owns(pointer);
}
Bytes DeviceMemory::blockBytesFor(std::size_t request_bytes) const noexcept {
  return pool_.blockBytesFor(request_bytes);
}

void DeviceMemory::setBudget(Bytes budget_bytes) noexcept {
  tracker_.setBudgetBytes(budget_bytes);
  pool_.unmapOverrun();
}
void DeviceMemory::setMargin(Bytes margin_bytes) noexcept {
  tracker_.setMarginBytes(margin_bytes);
  pool_.unmapOverrun();
}
void DeviceMemory::setReclaimer(Reclaimer* reclaimer) noexcept {
  reclaiming_.setReclaimer(reclaimer);
}
MappedExtents DeviceMemory::mappedExtents() const {
  MappedExtents extents;
  pool_.describe(extents);
  placed_.describe(extents);
  std::sort(extents.begin(), extents.end(),
            [](const auto& left, const auto& right) { return left.begin < right.begin; });
  return extents;
}
void DeviceMemory::setObserver(Observer* observer) noexcept {
  observed_.setObserver(observer);
}
void DeviceMemory::setWatcher(BlockWatcher* watcher) noexcept {
  observed_.setWatcher(watcher);
}
void DeviceMemory::limitOverrun(Bytes most_mapped_bytes) noexcept {
  reclaiming_.limitOverrun(most_mapped_bytes);
}

Bytes DeviceMemory::overrunLimitBytes() const noexcept {
  return reclaiming_.overrunLimitBytes();
}
void DeviceMemory::releaseCached() noexcept {
  pool_.unmapFree(kUnlimited);
}
void DeviceMemory::resetPeaks() noexcept {
  tracker_.resetPeaks();
}

Statistics DeviceMemory::statistics() const noexcept {
  Statistics stats;
  stats.budget_bytes = tracker_.budgetBytes();
  stats.margin_bytes = tracker_.marginBytes();
  stats.allocated_bytes = tracker_.liveBytes();
  // What lives now may not have been looked at yet.
  stats.allocated_peak_bytes = std::max(tracker_.livePeakBytes(), stats.allocated_bytes);
  stats.mapped_bytes = tracker_.mappedBytes();
  stats.mapped_peak_bytes = tracker_.mappedPeakBytes();
  stats.used_peak_bytes = tracker_.usedPeakBytes();
  stats.cached_bytes = pool_.cachedBytes();
  stats.slack_at_peak_bytes = pool_.slackAtPeakBytes();
  stats.planned_allocations = placed_.placedBlocks();
  stats.allocations = pool_.allocations() + stats.planned_allocations + placed_.lentBlocks();
  stats.plan_deviations = placed_.deviations() + placed_.latePlaces();
  stats.reclaims = reclaiming_.reclaims();
  stats.budget_violations = tracker_.overruns();
  return stats;
}

void DeviceMemory::lockForFork() noexcept {
  fork_parent_ = ::getpid();
  reclaiming_.lockForFork();
  pool_.lockForFork();
  placed_.lockForFork();
  recording_.lockForFork();
  tracker_.lockForFork();
}

void DeviceMemory::unlockAfterFork() noexcept {
  tracker_.unlockAfterFork();
  recording_.unlockAfterFork();
  placed_.unlockAfterFork();
  pool_.unlockAfterFork();
  reclaiming_.unlockAfterFork(/*in_child=*/::getpid() != fork_parent_);
}

}  // namespace ebbtide::allocator
