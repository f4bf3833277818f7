// BudgetTracker: the budget of one device, as bytes that are mapped.
//
// Every page counts from before it is mapped until after it is unmapped, whoever holds it and
// whether or not a block lies on it. So mapped + margin <= budget at every instant, but for what an
// OverrunScope let in, which is counted. The margin is what others hold of the device: context,
// communication, libraries.
//
// Thread rule: any thread; a debit is one atomic exchange, so no two can pass on the same bytes.
#pragma once

#include <array>
#include <atomic>

#include "ebbtide/allocator/bytes.hpp"
#include "ebbtide/allocator/spin_lock.hpp"

namespace ebbtide::allocator {

class BudgetTracker {
  struct alignas(128) LiveShard {  // two lines: the processor fetches them in pairs
    std::atomic<Bytes> bytes{0};
    std::atomic<Bytes> share{0};
    std::atomic<bool> taken{false};
  };

 public:
  // False, with nothing debited, when it does not fit and this thread is in no OverrunScope.
  bool debit(Bytes bytes) noexcept;
  void credit(Bytes bytes) noexcept { mapped_.fetch_sub(bytes, std::memory_order_acq_rel); }
  // Like debit(), but never refused: for what is mapped already.
  void debitAnyway(Bytes bytes) noexcept;

  Bytes budgetBytes() const noexcept { return budget_.load(std::memory_order_relaxed); }
  void setBudgetBytes(Bytes bytes) noexcept;
  Bytes marginBytes() const noexcept { return margin_.load(std::memory_order_relaxed); }
  void setMarginBytes(Bytes bytes) noexcept;

  // With nothing else mapped?
  bool couldFit(Bytes bytes) const noexcept {
    return bytes <= limit_.load(std::memory_order_relaxed);
  }
  static bool allowsOverrunHere() noexcept;  // this thread is in an OverrunScope
  // Negative when the budget was lowered below what is mapped.
  Bytes roomBytes() const noexcept;
  bool isOverBudget() const noexcept {  // the budget was lowered, or an overrun let in
    return mapped_.load(std::memory_order_relaxed) > limit_.load(std::memory_order_relaxed);
  }
  Bytes mappedBytes() const noexcept { return mapped_.load(std::memory_order_acquire); }
  Bytes mappedPeakBytes() const noexcept { return mapped_peak_.load(std::memory_order_relaxed); }
  // Of what is mapped and the margin of the same moment: what the budget bounds.
  Bytes usedPeakBytes() const noexcept { return used_peak_.load(std::memory_order_relaxed); }
  std::int64_t overruns() const noexcept { return overruns_.load(std::memory_order_relaxed); }

  // Bytes in blocks, for statistics and for how much of the pages may be cache. One of the counts
  // is one holder's, who changes it under its own lock: an exchange for each block would take as
  // long as the rest of an allocation, and reading the others' counts, while they change, longer.
  //
  //   peak   ├ own A ┤┄ left to A ┄├──── own B ────┤┄┄ left to B ┄┄┤
  //          └────── share ────────┴─────────── share ─────────────┘   together at most the peak
  //
  // While every count is within its share, the sum is no new peak, and nobody looks at it. Who
  // exceeds his own looks, and takes half of what is left to the others. Below a thousandth of the
  // peak (at most 256 KiB) above its share a holder looks no earlier than when it frees. So the sum
  // is exact while one thread allocates; the peak may miss that much for each holder, and what
  // another thread allocates in the same instant.
  class LiveCount {
   public:
    explicit LiveCount(BudgetTracker& tracker);  // throws std::bad_alloc when there are too many
    ~LiveCount() { shard_.taken.store(false, std::memory_order_release); }
    LiveCount(const LiveCount&) = delete;
    LiveCount& operator=(const LiveCount&) = delete;

    void noteAllocated(Bytes bytes) noexcept {
      if (add(bytes) > shard_.share.load(std::memory_order_relaxed) + unseen_) look();
    }
    void noteFreed(Bytes bytes) noexcept {
      const Bytes share = shard_.share.load(std::memory_order_relaxed);
      if (shard_.bytes.load(std::memory_order_relaxed) > share) look();
      add(-bytes);
      if (tracker_.watches_frees_.load(std::memory_order_relaxed)) {
        tracker_.saw_free_.store(true, std::memory_order_relaxed);
      }
    }

   private:
    Bytes add(Bytes bytes) noexcept {
      const Bytes own = shard_.bytes.load(std::memory_order_relaxed) + bytes;
      shard_.bytes.store(own, std::memory_order_relaxed);
      return own;
    }
    void look() noexcept;

    BudgetTracker& tracker_;
    LiveShard& shard_;
    Bytes unseen_ = 0;  // above the share, that is no reason to look
  };
  Bytes liveBytes() const noexcept {
    Bytes live = 0;
    const std::size_t count = live_count_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i) live += live_[i].bytes.load(std::memory_order_relaxed);
    return live;
  }
  Bytes livePeakBytes() const noexcept { return live_peak_.load(std::memory_order_relaxed); }
  Bytes lifetimePeakBytes() const noexcept;  // of liveBytes(), never reset
  void resetPeaks() noexcept;

  // No holder may be in a call then.
  void lockForFork() noexcept { sharing_.lock(); }
  void unlockAfterFork() noexcept { sharing_.unlock(); }

  // Was anything freed while it is alive? One at a time.
  class FreeWatch {
   public:
    explicit FreeWatch(BudgetTracker& tracker) noexcept : tracker_(tracker) {
      tracker_.saw_free_.store(false);
      tracker_.watches_frees_.store(true);
    }
    ~FreeWatch() { tracker_.watches_frees_.store(false); }
    FreeWatch(const FreeWatch&) = delete;
    FreeWatch& operator=(const FreeWatch&) = delete;
    bool sawAny() const noexcept { return tracker_.saw_free_.load(); }

   private:
    BudgetTracker& tracker_;
  };
  // While one is alive, this thread's debits pass, and those over the budget are counted.
  class OverrunScope {
   public:
    OverrunScope() noexcept;
    ~OverrunScope();
    OverrunScope(const OverrunScope&) = delete;
    OverrunScope& operator=(const OverrunScope&) = delete;
  };

 private:
  static void raise(std::atomic<Bytes>& peak, Bytes level) noexcept;
  void raisePeaks(Bytes mapped_bytes) noexcept;
  LiveShard& takeLiveShard();
  void shareAnew(LiveShard& looker) noexcept;
  void noteLimit() noexcept;

  std::atomic<Bytes> budget_{kUnlimited}, margin_{0};
  std::atomic<Bytes> limit_{kUnlimited};  // budget less margin
  std::atomic<Bytes> mapped_{0}, mapped_peak_{0}, used_peak_{0};
  std::atomic<Bytes> live_peak_{0}, lifetime_peak_{0};
  std::atomic<bool> watches_frees_{false}, saw_free_{false};
  std::atomic<std::int64_t> overruns_{0};
  std::atomic<std::size_t> live_count_{0};  // of the shards below, that were ever in use
  SpinLock sharing_;                        // of the peak; innermost
  std::array<LiveShard, 320> live_;
};

}  // namespace ebbtide::allocator
