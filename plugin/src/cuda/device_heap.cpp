#include "cuda/device_heap.hpp"

#include <c10/core/impl/GPUTrace.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/message_table.hpp"
#include "cuda/free_memory_callbacks.hpp"
#include "cuda/request_scope.hpp"
#include "ebbtide/allocator/cuda/stream_names.hpp"
#include "out_of_memory/out_of_memory.hpp"

namespace ebbtide::plugin::cuda {

using c10::CachingDeviceAllocator::RecordContext;

DeviceHeap::DeviceHeap(c10::DeviceIndex device, DeviceParts parts, const HistorySettings& settings,
                       const OutOfMemoryObservers& observers)
    : device_(device),
      pages_(parts.pages),
      settings_(settings),
      observers_(observers),
      pools_([this](allocator::Stream name, bool keep) { memory_->pool().keepMapped(name, keep); },
             [this] { return !events_->isCapturing() && memory_->pool().waitForDevice(); }),
      ledger_(device, settings, pools_),
      memory_(openMemory(parts)),
      budget_(*memory_, std::move(parts.memory_info), parts.measure_every) {}

std::unique_ptr<allocator::DeviceMemory> DeviceHeap::openMemory(DeviceParts& parts) {
  ReuseWatcher& reuse_watcher = *this;  // here, where the bases are known
  PageWatcher& page_watcher = *this;
  auto events = std::make_unique<WatchedEvents>(std::move(parts.events), reuse_watcher);
  events_ = events.get();
  return std::make_unique<allocator::DeviceMemory>(
      std::make_unique<WatchedAddressSpace>(std::move(parts.space), page_watcher),
      std::move(events), parts.options);
}

// -----------------------------------------------------------------------------------------------
// allocate and free

void* DeviceHeap::take(std::size_t bytes, const Owner& owner, const Context& context) {
  const RequestScope scope(owner, context);
  return memory_->allocate(bytes, owner.name);
}

void* DeviceHeap::allocate(std::size_t bytes, cudaStream_t stream) {
  auto context = settings_.gather(RecordContext::STATE);
  const PrivatePools::Place place = pools_.place(stream);
  const Owner owner{
      .name = place.name, .pool = place.pool, .small = memory_->pool().isSmall(bytes)};
  void* block = nullptr;
  {
    const allocator::ReclaimingResource::WithinBudget first;  // other ways to free memory come next
    block = take(bytes, owner, context);
  }
  if (block == nullptr) block = takeAfterFreeing(bytes, owner, context);
  if (block == nullptr) {
    pools_.onFreed(owner.pool);
    failOutOfMemory(bytes, owner, context);
  }
  try {
    enter(block, bytes, owner, std::move(context));
  } catch (...) {
    memory_->deallocate(block);
    pools_.onFreed(owner.pool);
    throw;
  }
  return block;
}

void* DeviceHeap::takeAfterFreeing(std::size_t bytes, const Owner& owner, const Context& context) {
  if (runFreeMemoryCallbacks()) {
    const allocator::ReclaimingResource::WithinBudget first;
    if (void* block = take(bytes, owner, context)) return block;
  }
  // The budget may have had room, and the device none: then others' free pages are in the way. Or
  // the other way round, if others let go of some.
  if (memory_->statistics().cached_bytes > 0) memory_->releaseCached();
  budget_.measureMargin();
  ledger_.onRetry();
  return take(bytes, owner, context);
}

void DeviceHeap::enter(void* at, std::size_t bytes, const Owner& owner, Context context) {
  const Bytes block_bytes = memory_->blockBytes(at);
  ledger_.enter(at, {.bytes = block_bytes,
                     .requested_bytes = static_cast<Bytes>(bytes),
                     .owner = owner,
                     .context = std::move(context)});
  report(at, block_bytes);
  if (const auto* trace = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(trace != nullptr)) {
    (*trace)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<std::uintptr_t>(at));
  }
}

void DeviceHeap::free(void* at) {
  if (const auto* trace = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(trace != nullptr)) {
    (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<std::uintptr_t>(at));
  }
  const auto context = settings_.gather(RecordContext::ALL);
  const HeapLedger::Freed freed = ledger_.beginFree(at, context);
  WatchedEvents::FreeScope scope(at);
  memory_->deallocate(at);
  if (freed.awaiting && !scope.recorded()) ledger_.endFree(at, freed, context);
  report(at, -freed.bytes);
}

void DeviceHeap::onReusable(const void* at) noexcept {
  ledger_.onReusable(at);
}

void DeviceHeap::recordStream(void* at, cudaStream_t stream, DeviceHeap& there) {
  const bool here = &there == this;
  const allocator::Stream name =
      here ? allocator::cuda::nameOf(stream) : events_->nameOfForeign(*there.events_, stream);
  if (ledger_.share(at, stream, here)) memory_->recordStream(at, name);
}

void DeviceHeap::failOutOfMemory(std::size_t bytes, const Owner& owner, const Context& context) {
  OutOfMemory facts{
      .request = {.bytes = static_cast<Bytes>(bytes), .block_bytes = memory_->blockBytesFor(bytes)},
      .device = {.index = device_}};
  facts.device.free_bytes = budget_.deviceFreeBytes();
  facts.device.total_bytes = budget_.totalBytes();
  facts.budget.bytes = memory_->budgetTracker().budgetBytes();
  facts.budget.margin_bytes = memory_->budgetTracker().marginBytes();
  facts.memory.mapped_bytes = memory_->budgetTracker().mappedBytes();
  facts.budget.overrun_limit_bytes = memory_->overrunLimitBytes();
  const HeapLedger::Shortage shortage =
      ledger_.onOutOfMemory(facts.device.free_bytes, facts.request.bytes, owner, context);
  facts.memory.live_bytes = shortage.live_bytes;
  facts.memory.awaiting_bytes = shortage.awaiting_bytes;
  facts.memory.free_bytes = shortage.idle_bytes;
  // Free pages can be joined to one block, with what the budget and the device have left.
  const Bytes room = std::max<Bytes>(
      0, std::min(facts.device.free_bytes,
                  facts.budget.bytes - facts.budget.margin_bytes - facts.memory.mapped_bytes));
  facts.memory.largest_free_bytes = memory_->statistics().cached_bytes + room;
  facts.memory.stuck_bytes =
      std::max<Bytes>(0, facts.memory.free_bytes + room - facts.memory.largest_free_bytes);
  facts.memory.free_bytes += room;
  c10::reportOutOfMemoryToProfiler(
      static_cast<std::int64_t>(bytes), static_cast<std::size_t>(facts.memory.live_bytes),
      static_cast<std::size_t>(facts.memory.mapped_bytes), c10::Device(c10::kCUDA, device_));
  const Bytes allowed = std::min(facts.budget.bytes, facts.device.total_bytes);
  for (const auto& observer : observers_.copy()) {
    observer(device_, static_cast<std::size_t>(facts.request.block_bytes),
             static_cast<std::size_t>(allowed), static_cast<std::size_t>(facts.device.free_bytes));
  }
  TORCH_CHECK_WITH(OutOfMemoryError, false, withCode(describe(facts)));
  std::abort();  // not reached: the check throws
}

void DeviceHeap::report(const void* block, Bytes bytes) const noexcept {
  if (!c10::memoryProfilingEnabled()) return;
  const HeapLedger::Totals totals = ledger_.totals();
  c10::reportMemoryUsageToProfiler(
      const_cast<void*>(block), bytes, static_cast<std::size_t>(totals.allocated_bytes),
      static_cast<std::size_t>(totals.reserved_bytes), c10::Device(c10::kCUDA, device_));
}

// -----------------------------------------------------------------------------------------------
// pages

bool DeviceHeap::mayMap(Bytes bytes) noexcept {
  return budget_.mayMap(bytes);
}

void DeviceHeap::onMapped(std::byte* begin, Bytes bytes) noexcept {
  ledger_.onMapped(begin, bytes, RequestScope::owner(), RequestScope::context());
}

void DeviceHeap::onUnmapping(std::byte* begin, Bytes bytes) noexcept {
  ledger_.onUnmapping(begin, bytes);
}

void DeviceHeap::releaseCached() {
  memory_->releaseCached();
}

// Free pages can be joined to one block, wherever they lie.
Bytes DeviceHeap::largestCachedBytes() {
  return memory_->statistics().cached_bytes;
}

// -----------------------------------------------------------------------------------------------
// statistics

DeviceStatistics::Torch DeviceHeap::statistics() {
  return ledger_.statistics(events_->synchronizations());
}

void DeviceHeap::resetPeaks() {
  ledger_.resetPeaks();
  memory_->resetPeaks();
}

}  // namespace ebbtide::plugin::cuda
