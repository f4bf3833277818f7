// ReclaimingResource: when its upstream fails, asks a reclaimer to free blocks and tries again.
//
//   upstream fails ─► reclaim(need) ─► upstream ─ fails ─► ... at most eight calls, and none after
//                                                           one after which nothing was freed
//                     └ no progress: within the overrun's limit? over the budget, counted : nullptr
//
// One thread reclaims at a time; others that are short wait for it. So a reclaimer must wait
// neither for a lock that a caller of allocate() may hold, nor for another thread's allocation.
#pragma once

#include <condition_variable>
#include <mutex>

#include "ebbtide/allocator/budget_tracker.hpp"
#include "ebbtide/allocator/memory_resource.hpp"
#include "ebbtide/allocator/pool_resource.hpp"
#include "ebbtide/allocator/reclaimer.hpp"

namespace ebbtide::allocator {

class ReclaimingResource final : public MemoryResource {
 public:
  // `pages`: where upstream's come from.
  ReclaimingResource(MemoryResource& upstream, BudgetTracker& tracker,
                     const PoolResource& pages) noexcept
      : upstream_(upstream), tracker_(tracker), pages_(pages) {}

  // Not owned; nullptr for none. Returns when no other thread is in the old one any more.
  void setReclaimer(Reclaimer* reclaimer) noexcept;
  // What may be mapped beyond the budget where nothing can be freed: counted, not refused. 0: no
  // more than the budget. Default: all.
  void limitOverrun(Bytes most_mapped_bytes) noexcept;
  Bytes overrunLimitBytes() const noexcept;
  // While one lives, this thread's requests go over no budget: for callers that can free more.
  class WithinBudget {
   public:
    WithinBudget() noexcept;
    ~WithinBudget();
    WithinBudget(const WithinBudget&) = delete;
    WithinBudget& operator=(const WithinBudget&) = delete;
  };
  std::int64_t reclaims() const noexcept { return reclaims_.load(std::memory_order_relaxed); }

  void* allocate(std::size_t bytes, Stream stream) noexcept override;
  void deallocate(void* block) noexcept override { upstream_.deallocate(block); }
  Bytes blockBytes(const void* block) const noexcept override {
    return upstream_.blockBytes(block);
  }
  void recordStream(void* block, Stream stream) noexcept override {
    upstream_.recordStream(block, stream);
  }

  void lockForFork() noexcept { mutex_.lock(); }
  void unlockAfterFork(bool in_child) noexcept;

 private:
  void* reclaimAndRetry(std::size_t bytes, Stream stream) noexcept;
  void* reclaimUntilItFits(std::unique_lock<std::mutex>& lock, std::size_t bytes,
                           Stream stream) noexcept;
  Bytes needBytes(std::size_t bytes) const noexcept;
  bool callReclaimer(std::unique_lock<std::mutex>& lock, const ReclaimRequest& request) noexcept;

  MemoryResource& upstream_;
  BudgetTracker& tracker_;
  const PoolResource& pages_;
  mutable std::mutex mutex_;  // guards all below but the counter
  std::condition_variable changed_;
  Reclaimer* reclaimer_ = nullptr;
  bool reclaiming_ = false;
  Bytes overrun_limit_bytes_ = kUnlimited;
  std::atomic<std::int64_t> reclaims_{0};
};

}  // namespace ebbtide::allocator
