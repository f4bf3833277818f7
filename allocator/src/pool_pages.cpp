// PoolResource: what maps and unmaps pages. All of it runs under the slow lock.
#include <algorithm>
#include <new>

#include "pool_impl.hpp"

namespace ebbtide::allocator {
namespace {

// Pages are mapped in such steps where room for many of them is left, so that the system can give
// huge ones.
constexpr Bytes kGrowthBytes = Bytes{2} << 20;
constexpr Bytes kRoomForGrowth = 16 * kGrowthBytes;

// Without a budget, pages beyond the live peak and a slack on top are taken from free extents
// instead of the system. Small processes are never bothered.
constexpr Bytes kSlackDivisor = 16;
constexpr Bytes kFreeSlackBytes = Bytes{16} << 20;

constexpr std::size_t kBatch = 64;  // ranges that are unmapped after one wait

}  // namespace

// -----------------------------------------------------------------------------------------------
// map

// Each step costs more than the one before.
void* PoolResource::Impl::allocateSlow(StreamPool& pool, const Request& request) noexcept {
  const Lock lock(slow);
  if (void* block = take(pool, request)) return block;  // another thread mapped meanwhile
  // or more than necessary would be let in
  if (!BudgetTracker::allowsOverrunHere()) {
    if (void* block = grow(pool, request, /*unmap_others=*/false)) return block;
  }
  if (awaitDeferred()) {
    if (void* block = take(pool, request)) return block;
  }
  return grow(pool, request, /*unmap_others=*/true);
}

// True when blocks that waited for events may be free now, those too whose events the device
// refused.
bool PoolResource::Impl::awaitDeferred() noexcept {
  if (!deferred.anyAwaiting()) return false;
  const std::uint64_t mark = deferred.lastDeferred();
  if (device.wait()) deferred.allDoneUpTo(mark);
  drain(DeferredFrees::Look::kAtAll);
  return true;
}

void* PoolResource::Impl::grow(StreamPool& pool, const Request& request,
                               bool unmap_others) noexcept {
  return request.isSmall() ? growSmall(pool, request, unmap_others)
                           : growLarge(pool, request, unmap_others);
}

void* PoolResource::Impl::growSmall(StreamPool& pool, const Request& request,
                                    bool unmap_others) noexcept {
  SmallArea::Growth growth;
  {
    const PoolLock lock(pool.mutex);
    if (void* block = take(lock, pool, request)) return block;
    growth = pool.small.takeGrowth(request.size_class, /*as_little_as_possible=*/unmap_others);
    if (growth.bytes == 0) return take(lock, pool, request);
  }
  const bool mapped =
      obtain(growth.bytes, unmap_others, [&] { return space.map(growth.begin, growth.bytes); });
  const PoolLock lock(pool.mutex);
  pool.small.settleGrowth(growth, mapped);
  // If not, a slot may have been freed meanwhile.
  return take(lock, pool, request);
}

void* PoolResource::Impl::growLarge(StreamPool& pool, const Request& request,
                                    bool unmap_others) noexcept {
  const Bytes bytes = Bytes{request.units} * kUnitBytes;
  const bool generous = !unmap_others && tracker.roomBytes() >= bytes + kRoomForGrowth;
  const Bytes step = std::max(page_bytes, generous ? kGrowthBytes : kUnitBytes);
  UnitRanges missing;
  ExtentId run = 0;
  try {
    const PoolLock lock(pool.mutex);
    run = pool.large.takeRun(request.units, static_cast<std::uint32_t>(step / kUnitBytes), missing);
  } catch (const std::bad_alloc&) {
  }
  if (run == 0) return nullptr;
  Bytes missing_bytes = 0;
  for (const UnitRange& range : missing) missing_bytes += range.units * kUnitBytes;
  keepSlackLow(missing_bytes);
  const bool mapped = obtain(missing_bytes, unmap_others, [&] { return mapAll(pool, missing); });
  const PoolLock lock(pool.mutex);
  if (!mapped) {
    pool.large.settleAsBefore(run, missing);
    return nullptr;
  }
  pool.large.settleAsBlock(run, request.units);
  pool.live.noteAllocated(bytes);
  ++pool.allocations;
  noteSlack(lock, pool);
  return pool.addressOf(pool.large[run].begin);
}

bool PoolResource::Impl::mapAll(StreamPool& pool, const UnitRanges& missing) noexcept {
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (space.map(pool.addressOf(missing[i].begin), Bytes{missing[i].units} * kUnitBytes)) continue;
    while (i-- > 0) {
      space.unmap(pool.addressOf(missing[i].begin), Bytes{missing[i].units} * kUnitBytes);
    }
    return false;
  }
  return true;
}

// Debits, then maps; false with nothing changed.
template <typename MapAll>
bool PoolResource::Impl::obtain(Bytes bytes, bool unmap_others, MapAll&& map_all) noexcept {
  for (bool retried = false;; retried = true) {
    if (!debit(bytes, unmap_others)) return false;
    if (map_all()) return true;
    tracker.credit(bytes);
    // It is the system that is short.
    if (retried || !unmap_others || unmapFree(bytes, /*others_too=*/true) == 0) return false;
  }
}

bool PoolResource::Impl::debit(Bytes bytes, bool unmap_others) noexcept {
  // only what lives is let over the budget
  if (unmap_others && BudgetTracker::allowsOverrunHere()) {
    const Bytes excess = bytes - tracker.roomBytes();
    if (excess > 0) unmapFree(excess, /*others_too=*/true);
  }
  while (!tracker.debit(bytes)) {
    if (!tracker.couldFit(bytes)) return false;  // not even with nothing else mapped
    const Bytes shortage = bytes - tracker.roomBytes();
    if (shortage <= 0) continue;  // another thread gave back
    if (!unmap_others || unmapFree(shortage, /*others_too=*/true) == 0) return false;
  }
  return true;
}

void PoolResource::Impl::keepSlackLow(Bytes bytes) noexcept {
  if (tracker.budgetBytes() != kUnlimited) return;
  const Bytes peak = std::max(tracker.lifetimePeakBytes(), tracker.liveBytes() + bytes);
  const Bytes slack = std::max(kFreeSlackBytes, peak / kSlackDivisor);
  const Bytes excess = tracker.mappedBytes() + bytes - peak - slack;
  if (excess > 0) unmapFree(excess, /*others_too=*/true);
}

// Without a slack: what it maps stays in use, step by step.
void PoolResource::Impl::makeRoomForOther(Bytes bytes) noexcept {
  const Bytes most = std::max(tracker.lifetimePeakBytes(), tracker.liveBytes() + bytes);
  const Bytes room = std::min(tracker.roomBytes(), most - tracker.mappedBytes());
  if (room < bytes) unmapFree(bytes - room, /*others_too=*/false);
}

// -----------------------------------------------------------------------------------------------
// unmap

// From the largest ranges first, pool by pool, then from the others.
Bytes PoolResource::Impl::unmapFree(Bytes need, bool others_too) noexcept {
  drain(DeferredFrees::Look::kAtFew);
  Bytes unmapped = 0;
  const auto unmapFrom = [&](auto&& unmap_some) {
    while (unmapped < need) {
      const Bytes some = unmap_some(need - unmapped);
      if (some == 0) break;
      unmapped += some;
    }
  };
  forEachPool([&](StreamPool& pool) {
    unmapFrom([&](Bytes more) { return unmapLarge(pool, more); });
    unmapFrom([&](Bytes more) { return unmapSmall(pool, more); });
  });
  if (unmapped < need && others_too && other != nullptr) {
    unmapped += other->unmapFree(need - unmapped);
  }
  return unmapped;
}

// A batch of free pages. They are out of reach before the device is waited for, so no work can
// come to use them afterwards.
Bytes PoolResource::Impl::unmapLarge(StreamPool& pool, Bytes need) noexcept {
  struct Pages {
    ExtentId id;
    std::byte* begin;
    Bytes bytes;
  };
  std::array<Pages, kBatch> batch;
  std::size_t count = 0;
  Bytes bytes = 0;
  {
    const PoolLock lock(pool.mutex);
    while (count < kBatch && bytes < need && !pool.keeps_mapped) {
      const Bytes units = std::min<Bytes>((need - bytes - 1) / kUnitBytes + 1, INT32_MAX);
      const ExtentId id = pool.large.takePages(static_cast<std::uint32_t>(units));
      if (id == 0) break;
      const Extent& extent = pool.large[id];
      batch[count] = {id, pool.addressOf(extent.begin), Bytes{extent.units} * kUnitBytes};
      bytes += batch[count++].bytes;
    }
  }
  if (count == 0) return 0;
  const bool idle = device.wait();
  if (idle) {
    for (std::size_t i = 0; i < count; ++i) space.unmap(batch[i].begin, batch[i].bytes);
    tracker.credit(bytes);
  }
  const PoolLock lock(pool.mutex);
  for (std::size_t i = 0; i < count; ++i) {
    if (idle) {
      pool.large.settleAsUnmapped(batch[i].id);
    } else {
      pool.large.settleAsFree(batch[i].id);
    }
  }
  return idle ? bytes : 0;
}

Bytes PoolResource::Impl::unmapSmall(StreamPool& pool, Bytes need) noexcept {
  std::array<SmallArea::Growth, kBatch> batch;
  std::size_t count = 0;
  {
    const PoolLock lock(pool.mutex);
    if (!pool.keeps_mapped) count = pool.small.takeEmptyChunks(batch, need);
  }
  if (count == 0) return 0;
  const bool idle = device.wait();
  Bytes bytes = 0;
  for (std::size_t i = 0; i < count && idle; ++i) {
    space.unmap(batch[i].begin, batch[i].bytes);
    bytes += batch[i].bytes;
  }
  tracker.credit(bytes);
  const PoolLock lock(pool.mutex);
  for (std::size_t i = 0; i < count; ++i) pool.small.settleEmptied(batch[i], idle);
  return bytes;
}

}  // namespace ebbtide::allocator
