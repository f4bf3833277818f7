#include "ebbtide/allocator/budget_tracker.hpp"

#include <algorithm>
#include <mutex>
#include <new>

namespace ebbtide::allocator {
namespace {

constexpr Bytes kUnseenDivisor = 1024;
constexpr Bytes kMostUnseenBytes = Bytes{256} << 10;

thread_local int overrun_scopes = 0;

Bytes used(Bytes mapped, Bytes margin) noexcept {
  return margin > kUnlimited - mapped ? kUnlimited : mapped + margin;
}

}  // namespace

bool BudgetTracker::allowsOverrunHere() noexcept {
  return overrun_scopes > 0;
}

Bytes BudgetTracker::roomBytes() const noexcept {
  const Bytes limit = limit_.load(std::memory_order_relaxed);
  return limit == kUnlimited ? kUnlimited : limit - mapped_.load(std::memory_order_acquire);
}

bool BudgetTracker::debit(Bytes bytes) noexcept {
  if (bytes == 0) return true;  // takes nothing of a budget that is overrun already
  Bytes mapped = mapped_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_.load(std::memory_order_relaxed) - mapped) {
      if (overrun_scopes == 0) return false;
      overruns_.fetch_add(1, std::memory_order_relaxed);
      debitAnyway(bytes);
      return true;
    }
  } while (!mapped_.compare_exchange_weak(mapped, mapped + bytes, std::memory_order_acq_rel));
  raisePeaks(mapped + bytes);
  return true;
}

void BudgetTracker::debitAnyway(Bytes bytes) noexcept {
  raisePeaks(mapped_.fetch_add(bytes, std::memory_order_acq_rel) + bytes);
}

void BudgetTracker::raisePeaks(Bytes mapped_bytes) noexcept {
  raise(mapped_peak_, mapped_bytes);
  raise(used_peak_, used(mapped_bytes, marginBytes()));
}

void BudgetTracker::setBudgetBytes(Bytes bytes) noexcept {
  budget_.store(std::max<Bytes>(bytes, 0));
  noteLimit();
}
void BudgetTracker::setMarginBytes(Bytes bytes) noexcept {
  margin_.store(std::max<Bytes>(bytes, 0));
  raise(used_peak_, used(mappedBytes(), marginBytes()));
  noteLimit();
}
void BudgetTracker::noteLimit() noexcept {
  for (;;) {
    const Bytes budget = budget_.load();
    const Bytes margin = margin_.load();
    limit_.store(budget == kUnlimited ? kUnlimited : std::max<Bytes>(budget - margin, 0));
    // Another thread may have set the other one, and stored its limit before this one.
    if (budget == budget_.load() && margin == margin_.load()) return;
  }
}

BudgetTracker::LiveCount::LiveCount(BudgetTracker& tracker)
    : tracker_(tracker), shard_(tracker.takeLiveShard()) {}

void BudgetTracker::LiveCount::look() noexcept {
  tracker_.shareAnew(shard_);
  unseen_ = std::min(kMostUnseenBytes, tracker_.livePeakBytes() / kUnseenDivisor);
}

// The others keep at most half of what is left to each of them, and together at most half of what
// the sum leaves of the peak; the rest is the looker's. A count that changes meanwhile may end
// above its share: then its holder looks.
void BudgetTracker::shareAnew(LiveShard& looker) noexcept {
  const std::lock_guard guard(sharing_);
  const std::size_t count = live_count_.load(std::memory_order_acquire);
  Bytes live = 0, left = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Bytes own = live_[i].bytes.load(std::memory_order_relaxed);
    live += own;
    if (&live_[i] == &looker) continue;
    left += std::max<Bytes>(0, live_[i].share.load(std::memory_order_relaxed) - own);
  }
  raise(live_peak_, live);
  const Bytes room = livePeakBytes() - live;
  const double kept =
      room == 0 ? 0 : 0.5 * static_cast<double>(room) / static_cast<double>(std::max(left, room));
  Bytes others = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (&live_[i] == &looker) continue;
    const Bytes own = live_[i].bytes.load(std::memory_order_relaxed);
    const Bytes share = live_[i].share.load(std::memory_order_relaxed);
    const Bytes now =
        own + static_cast<Bytes>(kept * static_cast<double>(std::max<Bytes>(0, share - own)));
    if (now != share) live_[i].share.store(now, std::memory_order_relaxed);
    others += now;
  }
  looker.share.store(livePeakBytes() - others, std::memory_order_relaxed);
}

BudgetTracker::LiveShard& BudgetTracker::takeLiveShard() {
  for (std::size_t i = 0; i < live_.size(); ++i) {
    if (live_[i].taken.exchange(true, std::memory_order_acquire)) continue;
    std::size_t count = live_count_.load(std::memory_order_relaxed);
    while (count <= i && !live_count_.compare_exchange_weak(count, i + 1)) {
    }
    return live_[i];
  }
  throw std::bad_alloc();
}

Bytes BudgetTracker::lifetimePeakBytes() const noexcept {
  return std::max({lifetime_peak_.load(std::memory_order_relaxed), livePeakBytes(), liveBytes()});
}

// What is allocated meanwhile may count for either side of the reset.
void BudgetTracker::resetPeaks() noexcept {
  const std::lock_guard guard(sharing_);
  lifetime_peak_.store(lifetimePeakBytes(), std::memory_order_relaxed);
  Bytes live = 0;
  const std::size_t count = live_count_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    const Bytes own = live_[i].bytes.load(std::memory_order_relaxed);
    live_[i].share.store(own, std::memory_order_relaxed);
    live += own;
  }
  live_peak_.store(live, std::memory_order_relaxed);
  mapped_peak_.store(mappedBytes(), std::memory_order_relaxed);
  used_peak_.store(used(mappedBytes(), marginBytes()), std::memory_order_relaxed);
}

void BudgetTracker::raise(std::atomic<Bytes>& peak, Bytes level) noexcept {
  Bytes seen = peak.load(std::memory_order_relaxed);
  while (seen < level && !peak.compare_exchange_weak(seen, level, std::memory_order_relaxed)) {
  }
}

BudgetTracker::OverrunScope::OverrunScope() noexcept {
  ++overrun_scopes;
}
BudgetTracker::OverrunScope::~OverrunScope() {
  --overrun_scopes;
}

}  // namespace ebbtide::allocator
