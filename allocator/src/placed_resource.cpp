#include "ebbtide/allocator/placed_resource.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <new>

#include "bad_free.hpp"
#include "deferred_frees.hpp"
#include "placed_lane.hpp"

namespace ebbtide::allocator {
namespace {

constexpr std::size_t kMostLanes = 8;

}  // namespace

struct PlacedResource::Impl {
  Impl(AddressSpace& space_in, StreamEvents& events, BudgetTracker& tracker_in,
       PoolResource& upstream_in, Bytes reserve_bytes_in)
      : space(space_in),
        tracker(tracker_in),
        upstream(upstream_in),
        reserve_bytes(reserve_bytes_in),
        most_small_bytes(upstream_in.mostSmallBytes()),
        deferred(events) {}
  ~Impl() {
    forEachLane([](PlacedLane& lane) { delete &lane; });
  }

  template <typename Visit>
  void forEachLane(Visit&& visit) const {
    const std::size_t count = lane_count.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i) visit(*lanes[i].load(std::memory_order_relaxed));
  }
  PlacementCounts counts() const noexcept {
    PlacementCounts sum;
    forEachLane([&](PlacedLane& lane) { sum += lane.counts(); });
    return sum;
  }
  PlacedLane* laneOf(Stream stream) const noexcept;
  PlacedLane* makeLane(Stream stream) noexcept;
  PlacedLane* ownerOf(const void* pointer) const noexcept;
  void drain(DeferredFrees::Look look) noexcept;
  void finishDeferred() noexcept;
  Bytes unmapFree(Bytes need_bytes, const PlacedLane* but) noexcept;

  AddressSpace& space;
  BudgetTracker& tracker;
  PoolResource& upstream;
  const Bytes reserve_bytes;
  const std::size_t most_small_bytes;
  DeferredFrees deferred;
  std::mutex making;  // of lanes
  std::array<std::atomic<PlacedLane*>, kMostLanes> lanes{};
  std::atomic<std::size_t> lane_count{0};
};

PlacedLane* PlacedResource::Impl::laneOf(Stream stream) const noexcept {
  const std::size_t count = lane_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    PlacedLane* const lane = lanes[i].load(std::memory_order_relaxed);
    if (lane->stream() == stream) return lane;
  }
  return nullptr;
}

PlacedLane* PlacedResource::Impl::makeLane(Stream stream) noexcept {
  const std::lock_guard lock(making);
  if (PlacedLane* const lane = laneOf(stream)) return lane;
  const std::size_t count = lane_count.load(std::memory_order_relaxed);
  if (count == kMostLanes) return nullptr;
  try {
    lanes[count] =
        new PlacedLane(space, tracker, upstream, stream, reserve_bytes,
                       [this, count](Bytes need_bytes) { unmapFree(need_bytes, lanes[count]); });
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  lane_count.store(count + 1, std::memory_order_release);
  return lanes[count];
}

PlacedLane* PlacedResource::Impl::ownerOf(const void* pointer) const noexcept {
  const std::size_t count = lane_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    PlacedLane* const lane = lanes[i].load(std::memory_order_relaxed);
    if (lane->owns(pointer)) return lane;
  }
  return nullptr;
}

void PlacedResource::Impl::drain(DeferredFrees::Look look) noexcept {
  void* block = nullptr;
  while (deferred.popDone(block, look)) ownerOf(block)->release(block);
}

// Those whose event the device refused are known to be done after a wait only.
void PlacedResource::Impl::finishDeferred() noexcept {
  if (!deferred.anyAwaiting()) return;
  const std::uint64_t mark = deferred.lastDeferred();
  if (upstream.waitForDevice()) deferred.allDoneUpTo(mark);
  drain(DeferredFrees::Look::kAtAll);
}

Bytes PlacedResource::Impl::unmapFree(Bytes need_bytes, const PlacedLane* but) noexcept {
  finishDeferred();
  Bytes unmapped = 0;
  forEachLane([&](PlacedLane& lane) {
    if (&lane != but && unmapped < need_bytes) {
      unmapped += lane.pages().unmapFree(need_bytes - unmapped);
    }
  });
  return unmapped;
}

// -----------------------------------------------------------------------------------------------

PlacedResource::PlacedResource(AddressSpace& space, StreamEvents& events, BudgetTracker& tracker,
                               PoolResource& upstream, Bytes reserve_bytes)
    : impl_(std::make_unique<Impl>(space, events, tracker, upstream, reserve_bytes)) {
  upstream.setOtherHolder(this);
}

PlacedResource::~PlacedResource() {
  impl_->upstream.setOtherHolder(nullptr);
}

void PlacedResource::beginStep(Stream stream, std::shared_ptr<const PlacedSequence> sequence,
                               bool this_thread_only) noexcept {
  PlacedLane* lane = impl_->laneOf(stream);
  if (lane == nullptr && sequence != nullptr) lane = impl_->makeLane(stream);
  if (lane == nullptr) return;
  lane->begin(std::move(sequence), this_thread_only);
}

void PlacedResource::beginPhase(Stream stream, std::size_t phase) noexcept {
  if (PlacedLane* const lane = impl_->laneOf(stream)) lane->beginPhase(phase);
}

void* PlacedResource::allocate(std::size_t bytes, Stream stream) noexcept {
  if (impl_->deferred.anyAwaiting()) impl_->drain(DeferredFrees::Look::kAtFew);
  PlacedLane* const lane = bytes > impl_->most_small_bytes ? impl_->laneOf(stream) : nullptr;
  if (lane == nullptr) return impl_->upstream.allocate(bytes, stream);
  const PlacedLane::Attempt attempt = lane->place(bytes);
  if (attempt.block != nullptr) return attempt.block;
  if (lane->mayLend(bytes)) {
    if (void* block = impl_->upstream.allocateFromOwn(bytes, stream)) return block;
    if (void* block = lane->lend(bytes)) return block;
  }
  void* const block = impl_->upstream.allocate(bytes, stream);
  if (block == nullptr) lane->takeBack(attempt);
  return block;
}

void PlacedResource::deallocate(void* block) noexcept {
  PlacedLane* const lane = impl_->ownerOf(block);
  if (lane == nullptr) {
    impl_->upstream.deallocate(block);
    return;
  }
  const ArenaUnits::Freed freed = lane->free(block);
  if (freed == ArenaUnits::Freed::kNone) {
    dieOfBadFree(block, "double free, or not the start of a block");
  }
  if (freed == ArenaUnits::Freed::kShared) {
    const DeferredFrees::Outcome outcome = impl_->deferred.defer(block);
    if (outcome == DeferredFrees::Outcome::kUnknown) dieOfBadFree(block, "double free");
    if (outcome == DeferredFrees::Outcome::kFree) lane->release(block);
  }
  if (impl_->tracker.isOverBudget()) impl_->upstream.unmapOverrun();
}

Bytes PlacedResource::blockBytes(const void* block) const noexcept {
  const PlacedLane* const lane = impl_->ownerOf(block);
  return lane != nullptr ? lane->blockBytes(block) : impl_->upstream.blockBytes(block);
}

void PlacedResource::recordStream(void* block, Stream stream) noexcept {
  PlacedLane* const lane = impl_->ownerOf(block);
  if (lane == nullptr) {
    impl_->upstream.recordStream(block, stream);
  } else if (lane->stream() != stream && lane->blockBytes(block) > 0) {
    impl_->deferred.share(block, stream);
    lane->markShared(block);
  }
}

Bytes PlacedResource::unmapFree(Bytes need_bytes) noexcept {
  return impl_->unmapFree(need_bytes, /*but=*/nullptr);
}

Bytes PlacedResource::freeBytes() const noexcept {
  Bytes bytes = 0;
  impl_->forEachLane([&](PlacedLane& lane) { bytes += lane.pages().freeBytes(); });
  return bytes;
}

void PlacedResource::describe(MappedExtents& out) const {
  impl_->forEachLane([&](PlacedLane& lane) { lane.pages().describe(lane.stream(), out); });
}

bool PlacedResource::owns(const void* pointer) const noexcept {
  return impl_->ownerOf(pointer) != nullptr;
}

std::int64_t PlacedResource::placedBlocks() const noexcept {
  return impl_->counts().placed;
}
std::int64_t PlacedResource::lentBlocks() const noexcept {
  return impl_->counts().lent;
}
PlacedBytes PlacedResource::placedBytes() const noexcept {
  return impl_->counts().bytes;
}
std::int64_t PlacedResource::deviations() const noexcept {
  return impl_->counts().deviations;
}
std::int64_t PlacedResource::latePlaces() const noexcept {
  return impl_->counts().late;
}

std::optional<PlanDeviation> PlacedResource::firstDeviation(Stream stream) const noexcept {
  const PlacedLane* const lane = impl_->laneOf(stream);
  return lane != nullptr ? lane->firstDeviation() : std::nullopt;
}

void PlacedResource::lockForFork() noexcept {
  impl_->making.lock();
  impl_->forEachLane([](PlacedLane& lane) { lane.lockForFork(); });
  impl_->deferred.lockForFork();
}

void PlacedResource::unlockAfterFork() noexcept {
  impl_->deferred.unlockAfterFork();
  impl_->forEachLane([](PlacedLane& lane) { lane.unlockAfterFork(); });
  impl_->making.unlock();
}

}  // namespace ebbtide::allocator
