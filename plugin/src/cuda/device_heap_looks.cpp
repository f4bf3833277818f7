// What a DeviceHeap shows of itself.
#include "cuda/device_heap.hpp"
#include "cuda/segments.hpp"
#include "ebbtide/allocator/cuda/stream_names.hpp"

namespace ebbtide::plugin::cuda {

using c10::CachingDeviceAllocator::SegmentInfo;
using c10::cuda::CUDACachingAllocator::StreamSegmentSize;

DeviceStatistics::Torch DeviceHeap::statistics() {
  const std::lock_guard lock(mutex_);
  const IdleMemory idle = idleMemoryOf(table_);
  return statistics_.look(idle.small_split, idle.large_split, events_->synchronizations());
}

void DeviceHeap::resetAccumulated() {
  const std::lock_guard lock(mutex_);
  statistics_.resetAccumulated();
}

void DeviceHeap::resetPeaks() {
  {
    const std::lock_guard lock(mutex_);
    statistics_.resetPeaks();
  }
  memory_->resetPeaks();
}

// Free pages can be joined to one block, wherever they lie.
Bytes DeviceHeap::largestCachedBytes() {
  return memory_->statistics().cached_bytes;
}

bool DeviceHeap::isOf(const void* at, cudaStream_t stream) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto& blocks = table_.blocks();
  const auto found = blocks.find(static_cast<const std::byte*>(at));
  if (found == blocks.end() || found->second.awaiting) return false;
  const Owner& owner = found->second.owner;
  return owner.pool == c10::MempoolId_t{0, 0} && allocator::cuda::handleOf(owner.name) == stream;
}

std::optional<DeviceHeap::Range> DeviceHeap::rangeAround(const void* block) {
  const std::lock_guard lock(mutex_);
  const Block* const found = table_.find(block);
  if (found == nullptr || found->awaiting) return std::nullopt;
  for (const SegmentInfo& segment : segmentsOf(table_, device_)) {
    const auto at = reinterpret_cast<std::size_t>(block);
    if (at < segment.address || at >= segment.address + segment.total_size) continue;
    return Range{reinterpret_cast<void*>(segment.address), static_cast<Bytes>(segment.total_size)};
  }
  return std::nullopt;
}

std::vector<SegmentInfo> DeviceHeap::snapshot(const c10::MempoolId_t& pool) {
  const std::lock_guard lock(mutex_);
  auto segments = segmentsOf(table_, device_, pool);
  history_.add(TraceEntry::SNAPSHOT, 0, statistics_.activeBytes(), Owner{.pool = pool}, nullptr);
  return segments;
}

std::vector<TraceEntry> DeviceHeap::history(
    const std::function<c10::time_t(c10::approx_time_t)>& microseconds) {
  const std::lock_guard lock(mutex_);
  return history_.entries(microseconds);
}

void DeviceHeap::setHistory(std::size_t most_entries, bool clear) {
  const std::lock_guard lock(mutex_);
  history_.setMost(most_entries);
  if (clear) history_.clear();
}

void DeviceHeap::addTracker(c10::CachingDeviceAllocator::AllocatorTraceTracker tracker) {
  const std::lock_guard lock(mutex_);
  history_.addTracker(std::move(tracker));
}

std::vector<StreamSegmentSize> DeviceHeap::segmentSizes() {
  const std::lock_guard lock(mutex_);
  std::vector<StreamSegmentSize> sizes;
  for (const auto& [begin, run] : table_.runs()) {
    sizes.emplace_back(allocator::cuda::handleOf(run.owner.name), run.owner.small,
                       static_cast<std::size_t>(run.end - begin));
  }
  return sizes;
}

}  // namespace ebbtide::plugin::cuda
