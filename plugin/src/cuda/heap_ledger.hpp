// HeapLedger: what one device's memory holds and what happened there: blocks and pages, torch's
// statistics, the history. It asks nothing of the memory itself.
//
//   enter ─► live ─ beginFree ─┬─────────────────────────────────────────────────► gone
//                              └► awaiting further streams ─ onReusable, endFree ─►
//
// Thread rule: any thread. Under its lock trackers of torch's run, and PrivatePools::onFreed().
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "base/guard.hpp"
#include "cuda/block_table.hpp"
#include "cuda/device_statistics.hpp"
#include "cuda/history.hpp"
#include "cuda/private_pools.hpp"

namespace ebbtide::plugin::cuda {

class HeapLedger {
 public:
  using Context = std::shared_ptr<c10::GatheredContext>;
  using Microseconds = std::function<c10::time_t(c10::approx_time_t)>;

  // Both outlive it. The pools are told of blocks that are gone.
  HeapLedger(c10::DeviceIndex device, const HistorySettings& settings, PrivatePools& pools)
      : device_(device), pools_(pools), history_(settings, device) {}

  // Gives the block its number. Throws std::bad_alloc, with nothing entered.
  void enter(const void* at, Block block);
  struct Freed {
    Bytes bytes;
    bool awaiting;         // streams that are not its own may use it
    std::uint64_t number;  // of the allocation
  };
  // `context`: of the call that frees, if it is known. Throws c10::Error for what is no live block.
  Freed beginFree(const void* at, const Context& context);
  // After all no stream is waited for. Nothing happens where the address is another block's by now.
  void endFree(const void* at, const Freed& freed, const Context& context) noexcept;
  void onReusable(const void* at) noexcept;  // the streams are done with it
  // `stream` uses the block too; not `here`: a stream of another device. False: it is the block's
  // own, where work is in order. Throws c10::Error for what is no live block.
  bool share(const void* at, cudaStream_t stream, bool here);

  // Where host memory does not suffice to note pages they are not shown; they count in the budget
  // all the same.
  void onMapped(std::byte* begin, Bytes bytes, const Owner& owner, const Context& context) noexcept;
  void onUnmapping(std::byte* begin, Bytes bytes) noexcept;

  void onRetry();
  struct Shortage {
    Bytes live_bytes;
    Bytes awaiting_bytes;
    Bytes idle_bytes;  // of mapped pages, in no block
  };
  Shortage onOutOfMemory(Bytes device_free_bytes, Bytes requested_bytes, const Owner& owner,
                         const Context& context);

  // Is it a live block for that stream, of no private pool?
  bool isOf(const void* at, cudaStream_t stream) const noexcept;
  // Of the run of pages that the block lies in; nullopt when it is no live block.
  struct Range {
    void* begin;
    Bytes bytes;
  };
  std::optional<Range> rangeAround(const void* block);
  // Are these the live blocks of the pool?
  bool hasExactly(const c10::MempoolId_t& pool, const std::unordered_set<void*>& blocks) const;

  struct Totals {
    Bytes allocated_bytes;
    Bytes reserved_bytes;
  };
  Totals totals() const;
  DeviceStatistics::Torch statistics(std::int64_t synchronizations);  // so many until now
  void resetAccumulated();
  void resetPeaks();
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> snapshot(const c10::MempoolId_t& pool);
  std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize> segmentSizes() const;
  std::vector<TraceEntry> history(const Microseconds& microseconds) const;
  void setHistory(std::size_t most_entries, bool clear);
  void addTracker(c10::CachingDeviceAllocator::AllocatorTraceTracker tracker);

 private:
  using Held = Guard<HeapLedger>::Held;
  void finish(const Held&, const void* at, Block& block, const Context& context) noexcept;

  const c10::DeviceIndex device_;
  PrivatePools& pools_;

  mutable Guard<HeapLedger> guard_;  // of what follows
  BlockTable table_;
  DeviceStatistics statistics_;
  History history_;
  std::uint64_t allocations_ = 0;
};

}  // namespace ebbtide::plugin::cuda
