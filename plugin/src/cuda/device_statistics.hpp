// DeviceStatistics: one device's counters, as torch.cuda.memory_stats() names them.
//
// Not thread-safe: HeapLedger's lock guards it.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include "cuda/block_table.hpp"

namespace ebbtide::plugin::cuda {

class DeviceStatistics {
 public:
  using Torch = c10::CachingDeviceAllocator::DeviceStats;

  void onAllocate(const Block& block) noexcept;
  void onFree(const Block& block) noexcept;
  void onReusable(const Block& block) noexcept;  // it is active no more
  void onMapped(bool small, Bytes bytes, int runs_more) noexcept;
  void onUnmapped(bool small, Bytes bytes, int runs_more) noexcept;
  void onPageCall(bool mapped) noexcept;  // of the driver; several parts may be one call
  void onRetry() noexcept { ++torch_.num_alloc_retries; }
  void onOutOfMemory() noexcept { ++torch_.num_ooms; }

  // Idle stretches beside a block that is in use, and how often streams were waited for, are
  // looked up when somebody asks.
  struct Idle {
    std::int64_t stretches = 0;
    Bytes bytes = 0;
  };
  Torch look(const Idle& small, const Idle& large, std::int64_t synchronizations) noexcept;

  void resetAccumulated() noexcept;
  void resetPeaks() noexcept;

  Bytes allocatedBytes() const noexcept { return torch_.allocated_bytes[0].current; }
  Bytes reservedBytes() const noexcept { return torch_.reserved_bytes[0].current; }
  Bytes activeBytes() const noexcept { return torch_.active_bytes[0].current; }

 private:
  Torch torch_;
  std::int64_t synchronizations_before_ = 0;  // the last reset
  std::int64_t synchronizations_ = 0;         // at the last look
};

}  // namespace ebbtide::plugin::cuda
