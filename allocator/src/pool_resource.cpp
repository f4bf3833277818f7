#include "ebbtide/allocator/pool_resource.hpp"

#include <algorithm>
#include <new>

#include "bad_free.hpp"
#include "pool_impl.hpp"

namespace ebbtide::allocator {

PoolResource::Impl::~Impl() {
  forEachPool([](StreamPool& pool) { delete &pool; });
}

PoolResource::Impl::Request PoolResource::Impl::requestFor(std::size_t bytes) const noexcept {
  const Bytes wanted = static_cast<Bytes>(bytes);
  const std::int64_t grains = (wanted + options.alignment_bytes - 1) >> grain_shift;
  if (grains <= kMaxSlotGrains) return {.size_class = classFor(grains)};
  const std::int64_t units = (wanted + kUnitBytes - 1) / kUnitBytes;
  return {.size_class = Request::kLarge,
          .units = static_cast<std::uint32_t>(std::min<std::int64_t>(units, UINT32_MAX))};
}

StreamPool* PoolResource::Impl::poolFor(Stream stream) noexcept {
  const std::size_t count = pool_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    StreamPool* const pool = pools[i].load(std::memory_order_relaxed);
    if (pool->stream() == stream) return pool;
  }
  const std::lock_guard lock(making);
  const std::size_t now = pool_count.load(std::memory_order_relaxed);
  for (std::size_t i = count; i < now; ++i) {
    if (pools[i].load(std::memory_order_relaxed)->stream() == stream) return pools[i];
  }
  if (now == kMostStreams) return nullptr;
  try {
    pools[now] =
        new StreamPool(space, tracker, stream, options.reserve_bytes, options.alignment_bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  pool_count.store(now + 1, std::memory_order_release);
  return pools[now];
}

StreamPool* PoolResource::Impl::ownerOf(const void* pointer) const noexcept {
  const std::size_t count = pool_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    StreamPool* const pool = pools[i].load(std::memory_order_relaxed);
    if (pool->owns(pointer)) return pool;
  }
  return nullptr;
}

// -----------------------------------------------------------------------------------------------
// allocate

void* PoolResource::Impl::take(StreamPool& pool, const Request& request) noexcept {
  const PoolLock lock(pool.mutex);
  return take(lock, pool, request);
}

void* PoolResource::Impl::take(const PoolLock& lock, StreamPool& pool,
                               const Request& request) noexcept {
  void* block = nullptr;
  if (request.isSmall()) {
    block = pool.small.take(request.size_class);
    if (block == nullptr) return nullptr;
    pool.live.noteAllocated(slotGrains(request.size_class) * options.alignment_bytes);
  } else {
    const ExtentId id = pool.large.take(request.units);
    if (id == 0) return nullptr;
    block = pool.addressOf(pool.large[id].begin);
    pool.live.noteAllocated(Bytes{request.units} * kUnitBytes);
  }
  ++pool.allocations;
  noteSlack(lock, pool);
  return block;
}

// Other pools' slack is that of their own last peak. Chunks without a live slot are none of it, as
// their pages go to whoever is short, unless the pool keeps them.
void PoolResource::Impl::noteSlack(const PoolLock& /*lock*/, StreamPool& pool) noexcept {
  const Bytes peak = tracker.livePeakBytes();
  if (peak == seen_peak.load(std::memory_order_relaxed)) return;
  seen_peak.store(peak, std::memory_order_relaxed);
  const SmallArea& small = pool.small;
  const Bytes to_give = pool.keeps_mapped ? 0 : small.emptyBytes();
  slack_at_peak.store(small.mappedBytes() - small.liveBytes() - to_give, std::memory_order_relaxed);
}

// -----------------------------------------------------------------------------------------------
// free

void PoolResource::Impl::release(void* block) noexcept {
  StreamPool* const pool = ownerOf(block);
  const PoolLock lock(pool->mutex);
  if (pool->small.owns(block)) {
    if (!pool->small.giveBack(block)) dieOfBadFree(block, "double free");
    return;
  }
  const ExtentId id = pool->blockAt(block);
  if (id == 0) dieOfBadFree(block, "double free");
  pool->large.giveBack(id);
}

void PoolResource::Impl::drain(DeferredFrees::Look look) noexcept {
  void* block = nullptr;
  while (deferred.popDone(block, look)) release(block);
}

// -----------------------------------------------------------------------------------------------

PoolResource::PoolResource(AddressSpace& space, StreamEvents& events, BudgetTracker& tracker,
                           const Options& options)
    : impl_(std::make_unique<Impl>(space, events, tracker, options)) {}

PoolResource::~PoolResource() = default;

void PoolResource::setOtherHolder(PageHolder* holder) noexcept {
  impl_->other = holder;
}

void PoolResource::keepMapped(Stream stream, bool keep) noexcept {
  StreamPool* const pool = impl_->poolFor(stream);
  if (pool == nullptr) return;  // nor will it ever have a page
  const Impl::PoolLock lock(pool->mutex);
  pool->keeps_mapped = keep;
}

template <typename Otherwise>
void* PoolResource::Impl::allocate(std::size_t bytes, Stream stream,
                                   Otherwise&& otherwise) noexcept {
  if (bytes == 0 || bytes > kMostRequestBytes) return nullptr;
  if (deferred.anyAwaiting()) drain(DeferredFrees::Look::kAtFew);
  StreamPool* const pool = poolFor(stream);
  if (pool == nullptr) return nullptr;
  const Request request = requestFor(bytes);
  if (void* block = take(*pool, request)) return block;
  return otherwise(*pool, request);
}

void* PoolResource::allocateFromOwn(std::size_t bytes, Stream stream) noexcept {
  return impl_->allocate(bytes, stream,
                         [this](StreamPool& pool, const Impl::Request& request) -> void* {
                           if (BudgetTracker::allowsOverrunHere())
                             return nullptr;  // there would be room for anything
                           const Impl::Lock lock(impl_->slow);
                           return impl_->grow(pool, request, /*unmap_others=*/false);
                         });
}

void* PoolResource::allocate(std::size_t bytes, Stream stream) noexcept {
  return impl_->allocate(bytes, stream, [this](StreamPool& pool, const Impl::Request& request) {
    return impl_->allocateSlow(pool, request);
  });
}

void PoolResource::deallocate(void* block) noexcept {
  if (block == nullptr) return;
  StreamPool* const pool = impl_->ownerOf(block);
  if (pool == nullptr) dieOfBadFree(block, "not a block of this allocator");
  bool shared = false;
  {
    const Impl::PoolLock lock(pool->mutex);
    if (pool->small.owns(block)) {
      const SmallArea::Slot slot = pool->small.slotAt(block);
      if (slot.bytes == 0) dieOfBadFree(block, "double free, or not the start of a block");
      shared = slot.shared;
      if (!shared) pool->small.giveBack(block);
      pool->live.noteFreed(slot.bytes);
    } else {
      const ExtentId id = pool->blockAt(block);
      if (id == 0) dieOfBadFree(block, "double free, or not the start of a block");
      shared = pool->large[id].shared;
      pool->live.noteFreed(Bytes{pool->large[id].units} * kUnitBytes);
      if (!shared) pool->large.giveBack(id);
    }
  }
  if (shared) {
    const DeferredFrees::Outcome outcome = impl_->deferred.defer(block);
    if (outcome == DeferredFrees::Outcome::kUnknown) dieOfBadFree(block, "double free");
    if (outcome == DeferredFrees::Outcome::kFree) impl_->release(block);
  }
  if (impl_->tracker.isOverBudget()) unmapOverrun();
}

Bytes PoolResource::blockBytes(const void* block) const noexcept {
  if (block == nullptr) return 0;
  StreamPool* const pool = impl_->ownerOf(block);
  if (pool == nullptr) return 0;
  const Impl::PoolLock lock(pool->mutex);
  if (pool->small.owns(block)) return pool->small.slotAt(block).bytes;
  const ExtentId id = pool->blockAt(block);
  return id == 0 ? 0 : Bytes{pool->large[id].units} * kUnitBytes;
}

void PoolResource::recordStream(void* block, Stream stream) noexcept {
  StreamPool* const pool = impl_->ownerOf(block);
  if (pool == nullptr || pool->stream() == stream) return;
  impl_->deferred.share(block, stream);
  const Impl::PoolLock lock(pool->mutex);
  if (pool->small.owns(block)) {
    if (pool->small.slotAt(block).bytes > 0) pool->small.markShared(block);
  } else if (const ExtentId id = pool->blockAt(block)) {
    pool->large[id].shared = true;
  }
}

bool PoolResource::waitForDevice() noexcept {
  return impl_->device.wait();
}

Bytes PoolResource::unmapFree(Bytes need_bytes) noexcept {
  const Impl::Lock lock(impl_->slow);
  impl_->awaitDeferred();
  return impl_->unmapFree(need_bytes, /*others_too=*/true);
}

void PoolResource::makeRoomForOther(Bytes bytes) noexcept {
  const Impl::Lock lock(impl_->slow);
  impl_->makeRoomForOther(bytes);
}

void PoolResource::unmapOverrun() noexcept {
  const Impl::Lock lock(impl_->slow);
  const Bytes excess = -impl_->tracker.roomBytes();
  if (excess > 0) impl_->unmapFree(excess, /*others_too=*/true);
}

Bytes PoolResource::freeBytes() const noexcept {
  Bytes bytes = 0;
  impl_->forEachPool([&](StreamPool& pool) {
    const Impl::PoolLock lock(pool.mutex);
    if (pool.keeps_mapped) return;
    bytes += pool.large.freePageUnits() * kUnitBytes + pool.small.emptyBytes();
  });
  return bytes;
}

Bytes PoolResource::cachedBytes() const noexcept {
  return freeBytes() + (impl_->other != nullptr ? impl_->other->freeBytes() : 0);
}

Bytes PoolResource::blockBytesFor(std::size_t request_bytes) const noexcept {
  if (request_bytes == 0) return 0;
  if (request_bytes > kMostRequestBytes) return kUnlimited;
  const Impl::Request request = impl_->requestFor(request_bytes);
  if (request.isSmall()) return slotGrains(request.size_class) * impl_->options.alignment_bytes;
  return roundUp(static_cast<Bytes>(request_bytes), kUnitBytes);
}

bool PoolResource::isSmall(std::size_t request_bytes) const noexcept {
  return request_bytes <= mostSmallBytes();
}

std::size_t PoolResource::mostSmallBytes() const noexcept {
  return static_cast<std::size_t>(kMaxSlotGrains * impl_->options.alignment_bytes);
}

bool PoolResource::owns(const void* pointer) const noexcept {
  return impl_->ownerOf(pointer) != nullptr;
}

Bytes PoolResource::slackAtPeakBytes() const noexcept {
  return impl_->slack_at_peak.load(std::memory_order_relaxed);
}

std::int64_t PoolResource::allocations() const noexcept {
  std::int64_t count = 0;
  impl_->forEachPool([&](StreamPool& pool) {
    const Impl::PoolLock lock(pool.mutex);
    count += pool.allocations;
  });
  return count;
}

void PoolResource::describe(MappedExtents& out) const {
  impl_->forEachPool([&out](StreamPool& pool) {
    const Impl::PoolLock lock(pool.mutex);
    pool.small.forEachExtent([&](const std::byte* begin, Bytes bytes, bool live) {
      out.push_back({begin, bytes, live, pool.stream()});
    });
    for (ExtentId id = pool.large.first(); id != 0; id = pool.large[id].after) {
      const Extent& extent = pool.large[id];
      const bool live = extent.state == ExtentState::kLive;
      if (!live && extent.state != ExtentState::kFree) continue;
      out.push_back(
          {pool.addressOf(extent.begin), Bytes{extent.units} * kUnitBytes, live, pool.stream()});
    }
  });
}

void PoolResource::lockForFork() noexcept {
  impl_->slow.lock();
  impl_->making.lock();
  impl_->deferred.lockForFork();
  impl_->forEachPool([](StreamPool& pool) { pool.mutex.lock(); });
}

void PoolResource::unlockAfterFork() noexcept {
  impl_->forEachPool([](StreamPool& pool) { pool.mutex.unlock(); });
  impl_->deferred.unlockAfterFork();
  impl_->making.unlock();
  impl_->slow.unlock();
}

}  // namespace ebbtide::allocator
