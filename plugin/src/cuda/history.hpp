// History: what happened on one device, for torch.cuda.memory._record_memory_history() and for
// those who follow it (NCCL registers segments so).
//
// Not thread-safe: HeapLedger's lock guards it. HistorySettings are all devices' together, and may
// be read from any thread.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/block_table.hpp"

namespace ebbtide::plugin::cuda {

using c10::CachingDeviceAllocator::TraceEntry;

class HistorySettings {
 public:
  using RecordContext = c10::CachingDeviceAllocator::RecordContext;

  void set(bool enabled, c10::CachingDeviceAllocator::CreateContextFn create, RecordContext when,
           const std::vector<std::string>& skip_actions);
  bool enabled() const noexcept { return enabled_.load(std::memory_order_relaxed); }
  bool records(TraceEntry::Action action) const noexcept {
    return enabled() && (skipped_.load(std::memory_order_relaxed) & (1U << action)) == 0;
  }
  // Where the program is now, if that is wanted at this level. May take the interpreter's lock, so
  // no lock of ours may be held.
  std::shared_ptr<c10::GatheredContext> gather(RecordContext level) const;
  bool keepsContextOfEntries() const noexcept {
    return when_.load(std::memory_order_relaxed) >= RecordContext::ALLOC;
  }

  void setUserMetadata(const std::string& text);
  std::string userMetadata() const;
  // Of this thread.
  static void pushCompileContext(const std::string& text);
  static void popCompileContext();
  static std::string compileContext();

 private:
  std::atomic<bool> enabled_{false};
  std::atomic<unsigned> skipped_{0};  // bits, by action
  std::atomic<RecordContext> when_{RecordContext::NEVER};
  std::atomic<c10::CachingDeviceAllocator::CreateContextFn> create_{nullptr};
  mutable std::mutex mutex_;  // guards what follows
  std::string user_metadata_;
};

// A ring: the latest `most` entries.
class History {
 public:
  using Trackers = std::vector<c10::CachingDeviceAllocator::AllocatorTraceTracker>;

  History(const HistorySettings& settings, c10::DeviceIndex device)
      : settings_(settings), device_(device) {}

  void setMost(std::size_t entries) noexcept { most_ = entries == 0 ? 1 : entries; }
  void clear() noexcept;
  void addTracker(c10::CachingDeviceAllocator::AllocatorTraceTracker tracker) {
    trackers_.push_back(std::move(tracker));
  }

  // An entry that host memory does not suffice for is left out.
  void add(TraceEntry::Action action, std::size_t address, Bytes bytes, const Owner& owner,
           const std::shared_ptr<c10::GatheredContext>& context) noexcept;
  // Oldest first, with times in microseconds.
  std::vector<TraceEntry> entries(
      const std::function<c10::time_t(c10::approx_time_t)>& microseconds) const;

 private:
  const HistorySettings& settings_;
  const c10::DeviceIndex device_;
  std::size_t most_ = 1;
  std::vector<TraceEntry> entries_;
  std::size_t next_ = 0;  // to be overwritten
  Trackers trackers_;
};

}  // namespace ebbtide::plugin::cuda
