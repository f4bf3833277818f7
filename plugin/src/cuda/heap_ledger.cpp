#include "cuda/heap_ledger.hpp"

#include <new>
#include <utility>

#include "cuda/segments.hpp"
#include "ebbtide/allocator/cuda/stream_names.hpp"

namespace ebbtide::plugin::cuda {

using c10::CachingDeviceAllocator::SegmentInfo;
using c10::cuda::CUDACachingAllocator::StreamSegmentSize;

// -----------------------------------------------------------------------------------------------
// blocks

void HeapLedger::enter(const void* at, Block block) {
  const auto held = guard_.hold();
  // Freed, and waited for nothing: it can be here again before its free ends.
  if (Block* const before = table_.find(at)) finish(held, at, *before, nullptr);
  block.number = ++allocations_;
  table_.insert(at, block);
  statistics_.onAllocate(block);
  history_.add(TraceEntry::ALLOC, reinterpret_cast<std::size_t>(at), block.requested_bytes,
               block.owner, block.context);
}

HeapLedger::Freed HeapLedger::beginFree(const void* at, const Context& context) {
  const auto held = guard_.hold();
  Block* const block = table_.find(at);
  TORCH_CHECK(block != nullptr && !block->awaiting, "invalid device pointer: ", at);
  const Freed freed{.bytes = block->bytes, .awaiting = block->shared, .number = block->number};
  statistics_.onFree(*block);
  history_.add(TraceEntry::FREE_REQUESTED, reinterpret_cast<std::size_t>(at),
               block->requested_bytes, block->owner, context != nullptr ? context : block->context);
  if (freed.awaiting) {
    block->awaiting = true;
  } else {
    finish(held, at, *block, context);
  }
  return freed;
}

void HeapLedger::endFree(const void* at, const Freed& freed, const Context& context) noexcept {
  const auto held = guard_.hold();
  Block* const block = table_.find(at);
  if (block != nullptr && block->number == freed.number) finish(held, at, *block, context);
}

void HeapLedger::onReusable(const void* at) noexcept {
  const auto held = guard_.hold();
  Block* const block = table_.find(at);
  if (block != nullptr && block->awaiting) finish(held, at, *block, nullptr);
}

void HeapLedger::finish(const Held& /*held*/, const void* at, Block& block,
                        const Context& context) noexcept {
  statistics_.onReusable(block);
  history_.add(TraceEntry::FREE_COMPLETED, reinterpret_cast<std::size_t>(at), block.requested_bytes,
               block.owner, context != nullptr ? context : block.context);
  pools_.onFreed(block.owner.pool);
  table_.erase(at);
}

bool HeapLedger::share(const void* at, cudaStream_t stream, bool here) {
  const auto held = guard_.hold();
  Block* const block = table_.find(at);
  TORCH_CHECK(block != nullptr && !block->awaiting, "invalid device pointer: ", at);
  if (here && allocator::cuda::handleOf(block->owner.name) == stream) return false;
  block->shared = true;
  return true;
}

// -----------------------------------------------------------------------------------------------
// pages, and requests that find none

void HeapLedger::onMapped(std::byte* begin, Bytes bytes, const Owner& owner,
                          const Context& context) noexcept {
  const auto held = guard_.hold();
  statistics_.onPageCall(/*mapped=*/true);
  try {
    const int more = table_.addPages(begin, bytes, owner);
    statistics_.onMapped(owner.small, bytes, more);
  } catch (const std::bad_alloc&) {
    return;
  }
  history_.add(TraceEntry::SEGMENT_MAP, reinterpret_cast<std::size_t>(begin), bytes, owner,
               context);
}

void HeapLedger::onUnmapping(std::byte* begin, Bytes bytes) noexcept {
  const auto held = guard_.hold();
  statistics_.onPageCall(/*mapped=*/false);
  const auto onPart = [this](std::byte* at, const Owner& owner, Bytes part, int more) {
    statistics_.onUnmapped(owner.small, part, more);
    history_.add(TraceEntry::SEGMENT_UNMAP, reinterpret_cast<std::size_t>(at), part, owner,
                 nullptr);
  };
  try {
    table_.removePages(begin, bytes, onPart);
  } catch (const std::bad_alloc&) {
  }
}

void HeapLedger::onRetry() {
  const auto held = guard_.hold();
  statistics_.onRetry();
}

HeapLedger::Shortage HeapLedger::onOutOfMemory(Bytes device_free_bytes, Bytes requested_bytes,
                                               const Owner& owner, const Context& context) {
  const auto held = guard_.hold();
  history_.add(TraceEntry::OOM, static_cast<std::size_t>(device_free_bytes), requested_bytes, owner,
               context);
  statistics_.onOutOfMemory();
  const Bytes live = statistics_.allocatedBytes();
  return {.live_bytes = live,
          .awaiting_bytes = statistics_.activeBytes() - live,
          .idle_bytes = idleMemoryOf(table_).bytes};
}

// -----------------------------------------------------------------------------------------------
// looks

bool HeapLedger::isOf(const void* at, cudaStream_t stream) const noexcept {
  const auto held = guard_.hold();
  const auto& blocks = table_.blocks();
  const auto found = blocks.find(static_cast<const std::byte*>(at));
  if (found == blocks.end() || found->second.awaiting) return false;
  const Owner& owner = found->second.owner;
  return owner.pool == c10::MempoolId_t{0, 0} && allocator::cuda::handleOf(owner.name) == stream;
}

std::optional<HeapLedger::Range> HeapLedger::rangeAround(const void* block) {
  const auto held = guard_.hold();
  const Block* const found = table_.find(block);
  if (found == nullptr || found->awaiting) return std::nullopt;
  for (const SegmentInfo& segment : segmentsOf(table_, device_)) {
    const auto at = reinterpret_cast<std::size_t>(block);
    if (at < segment.address || at >= segment.address + segment.total_size) continue;
    return Range{reinterpret_cast<void*>(segment.address), static_cast<Bytes>(segment.total_size)};
  }
  return std::nullopt;
}

bool HeapLedger::hasExactly(const c10::MempoolId_t& pool,
                            const std::unordered_set<void*>& blocks) const {
  const auto held = guard_.hold();
  std::size_t found = 0;
  for (const auto& [at, block] : table_.blocks()) {
    if (block.owner.pool != pool || block.awaiting) continue;
    if (!blocks.contains(const_cast<std::byte*>(at))) return false;
    ++found;
  }
  return found == blocks.size();
}

HeapLedger::Totals HeapLedger::totals() const {
  const auto held = guard_.hold();
  return {.allocated_bytes = statistics_.allocatedBytes(),
          .reserved_bytes = statistics_.reservedBytes()};
}

DeviceStatistics::Torch HeapLedger::statistics(std::int64_t synchronizations) {
  const auto held = guard_.hold();
  const IdleMemory idle = idleMemoryOf(table_);
  return statistics_.look(idle.small_split, idle.large_split, synchronizations);
}

void HeapLedger::resetAccumulated() {
  const auto held = guard_.hold();
  statistics_.resetAccumulated();
}

void HeapLedger::resetPeaks() {
  const auto held = guard_.hold();
  statistics_.resetPeaks();
}

std::vector<SegmentInfo> HeapLedger::snapshot(const c10::MempoolId_t& pool) {
  const auto held = guard_.hold();
  auto segments = segmentsOf(table_, device_, pool);
  history_.add(TraceEntry::SNAPSHOT, 0, statistics_.activeBytes(), Owner{.pool = pool}, nullptr);
  return segments;
}

std::vector<StreamSegmentSize> HeapLedger::segmentSizes() const {
  const auto held = guard_.hold();
  std::vector<StreamSegmentSize> sizes;
  for (const auto& [begin, run] : table_.runs()) {
    sizes.emplace_back(allocator::cuda::handleOf(run.owner.name), run.owner.small,
                       static_cast<std::size_t>(run.end - begin));
  }
  return sizes;
}

std::vector<TraceEntry> HeapLedger::history(const Microseconds& microseconds) const {
  const auto held = guard_.hold();
  return history_.entries(microseconds);
}

void HeapLedger::setHistory(std::size_t most_entries, bool clear) {
  const auto held = guard_.hold();
  history_.setMost(most_entries);
  if (clear) history_.clear();
}

void HeapLedger::addTracker(c10::CachingDeviceAllocator::AllocatorTraceTracker tracker) {
  const auto held = guard_.hold();
  history_.addTracker(std::move(tracker));
}

}  // namespace ebbtide::plugin::cuda
