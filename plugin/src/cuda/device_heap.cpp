#include "cuda/device_heap.hpp"

#include <c10/core/impl/GPUTrace.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/message_table.hpp"
#include "cuda/free_memory_callbacks.hpp"
#include "cuda/request_scope.hpp"
#include "cuda/segments.hpp"
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
      history_(settings, device),
      memory_(openMemory(parts)),
      budget_(*memory_, std::move(parts.memory_info), parts.measure_every),
      pools_([this](allocator::Stream name, bool keep) { memory_->pool().keepMapped(name, keep); },
             [this] { return !events_->isCapturing() && memory_->pool().waitForDevice(); }) {}

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
  {
    const std::lock_guard lock(mutex_);
    statistics_.onRetry();
  }
  return take(bytes, owner, context);
}

void DeviceHeap::enter(void* at, std::size_t bytes, const Owner& owner, Context context) {
  const Bytes block_bytes = memory_->blockBytes(at);
  {
    const std::lock_guard lock(mutex_);
    // Freed, and waited for nothing: it can be here again before its free ends.
    if (Block* const before = table_.find(at)) finishFree(lock, at, *before, nullptr);
    Block block;
    block.bytes = block_bytes;
    block.requested_bytes = static_cast<Bytes>(bytes);
    block.owner = owner;
    block.number = ++allocations_;
    block.context = context;
    table_.insert(at, block);
    statistics_.onAllocate(block);
    history_.add(TraceEntry::ALLOC, reinterpret_cast<std::size_t>(at), static_cast<Bytes>(bytes),
                 owner, context);
  }
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
  Bytes bytes = 0;
  bool shared = false;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    Block* const block = table_.find(at);
    TORCH_CHECK(block != nullptr && !block->awaiting, "invalid device pointer: ", at);
    bytes = block->bytes;
    shared = block->shared;
    number = block->number;
    statistics_.onFree(*block);
    history_.add(TraceEntry::FREE_REQUESTED, reinterpret_cast<std::size_t>(at),
                 block->requested_bytes, block->owner,
                 context != nullptr ? context : block->context);
    if (shared) {
      block->awaiting = true;
    } else {
      finishFree(lock, at, *block, context);
    }
  }
  WatchedEvents::FreeScope scope(at);
  memory_->deallocate(at);
  if (shared && !scope.recorded()) {
    const std::lock_guard lock(mutex_);
    Block* const block = table_.find(at);
    if (block != nullptr && block->number == number) finishFree(lock, at, *block, context);
  }
  report(at, -bytes);
}

void DeviceHeap::onReusable(const void* at) noexcept {
  const std::lock_guard lock(mutex_);
  Block* const block = table_.find(at);
  if (block != nullptr && block->awaiting) finishFree(lock, at, *block, nullptr);
}

void DeviceHeap::finishFree(const Held& /*lock*/, const void* at, Block& block,
                            const Context& context) noexcept {
  statistics_.onReusable(block);
  history_.add(TraceEntry::FREE_COMPLETED, reinterpret_cast<std::size_t>(at), block.requested_bytes,
               block.owner, context != nullptr ? context : block.context);
  pools_.onFreed(block.owner.pool);
  table_.erase(at);
}

void DeviceHeap::recordStream(void* at, cudaStream_t stream, DeviceHeap& there) {
  const bool here = &there == this;
  const allocator::Stream name =
      here ? allocator::cuda::nameOf(stream) : events_->nameOfForeign(*there.events_, stream);
  {
    const std::lock_guard lock(mutex_);
    Block* const block = table_.find(at);
    TORCH_CHECK(block != nullptr && !block->awaiting, "invalid device pointer: ", at);
    // On its own stream it is used in order as it is.
    if (here && allocator::cuda::handleOf(block->owner.name) == stream) return;
    block->shared = true;
  }
  memory_->recordStream(at, name);
}

void DeviceHeap::failOutOfMemory(std::size_t bytes, const Owner& owner, const Context& context) {
  OutOfMemory facts{.device = device_,
                    .requested_bytes = static_cast<Bytes>(bytes),
                    .block_bytes = memory_->blockBytesFor(bytes)};
  facts.device_free_bytes = budget_.deviceFreeBytes();
  facts.device_total_bytes = budget_.totalBytes();
  facts.budget_bytes = memory_->budgetTracker().budgetBytes();
  facts.margin_bytes = memory_->budgetTracker().marginBytes();
  facts.mapped_bytes = memory_->budgetTracker().mappedBytes();
  facts.overrun_limit_bytes = memory_->overrunLimitBytes();
  {
    const std::lock_guard lock(mutex_);
    history_.add(TraceEntry::OOM, static_cast<std::size_t>(facts.device_free_bytes),
                 static_cast<Bytes>(bytes), owner, context);
    statistics_.onOutOfMemory();
    facts.live_bytes = statistics_.allocatedBytes();
    facts.awaiting_bytes = statistics_.activeBytes() - facts.live_bytes;
    facts.free_bytes = idleMemoryOf(table_).bytes;
  }
  // Free pages can be joined to one block, with what the budget and the device have left.
  const Bytes room =
      std::max<Bytes>(0, std::min(facts.device_free_bytes,
                                  facts.budget_bytes - facts.margin_bytes - facts.mapped_bytes));
  facts.largest_free_bytes = memory_->statistics().cached_bytes + room;
  facts.stuck_bytes = std::max<Bytes>(0, facts.free_bytes + room - facts.largest_free_bytes);
  facts.free_bytes += room;
  c10::reportOutOfMemoryToProfiler(
      static_cast<std::int64_t>(bytes), static_cast<std::size_t>(facts.live_bytes),
      static_cast<std::size_t>(facts.mapped_bytes), c10::Device(c10::kCUDA, device_));
  const Bytes allowed = std::min(facts.budget_bytes, facts.device_total_bytes);
  for (const auto& observer : observers_.copy()) {
    observer(device_, static_cast<std::size_t>(facts.block_bytes),
             static_cast<std::size_t>(allowed), static_cast<std::size_t>(facts.device_free_bytes));
  }
  TORCH_CHECK_WITH(OutOfMemoryError, false, withCode(describe(facts)));
  std::abort();  // not reached: the check throws
}

void DeviceHeap::report(const void* block, Bytes bytes) const noexcept {
  if (!c10::memoryProfilingEnabled()) return;
  std::size_t allocated = 0, reserved = 0;
  {
    const std::lock_guard lock(mutex_);
    allocated = static_cast<std::size_t>(statistics_.allocatedBytes());
    reserved = static_cast<std::size_t>(statistics_.reservedBytes());
  }
  c10::reportMemoryUsageToProfiler(const_cast<void*>(block), bytes, allocated, reserved,
                                   c10::Device(c10::kCUDA, device_));
}

// -----------------------------------------------------------------------------------------------
// pages

bool DeviceHeap::mayMap(Bytes bytes) noexcept {
  return budget_.mayMap(bytes);
}

// Where host memory does not suffice to note pages they are not shown; they count in the budget all
// the same.
void DeviceHeap::onMapped(std::byte* begin, Bytes bytes) noexcept {
  const Owner owner = RequestScope::owner();
  const std::lock_guard lock(mutex_);
  statistics_.onPageCall(/*mapped=*/true);
  try {
    const int more = table_.addPages(begin, bytes, owner);
    statistics_.onMapped(owner.small, bytes, more);
  } catch (const std::bad_alloc&) {
    return;
  }
  history_.add(TraceEntry::SEGMENT_MAP, reinterpret_cast<std::size_t>(begin), bytes, owner,
               RequestScope::context());
}

void DeviceHeap::onUnmapping(std::byte* begin, Bytes bytes) noexcept {
  const std::lock_guard lock(mutex_);
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

void DeviceHeap::releaseCached() {
  memory_->releaseCached();
}

// -----------------------------------------------------------------------------------------------
// private pools

bool DeviceHeap::hasExactly(const c10::MempoolId_t& pool, const std::unordered_set<void*>& blocks) {
  const std::lock_guard lock(mutex_);
  std::size_t found = 0;
  for (const auto& [at, block] : table_.blocks()) {
    if (block.owner.pool != pool || block.awaiting) continue;
    if (!blocks.contains(const_cast<std::byte*>(at))) return false;
    ++found;
  }
  return found == blocks.size();
}

}  // namespace ebbtide::plugin::cuda
