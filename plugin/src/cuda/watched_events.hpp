// WatchedEvents: tells when a freed block's events are done, and asks the device nothing while a
// graph is captured.
//
//   FreeScope(block) ─ record, record ─► block waits ─ recycle, recycle ─► onReusable(block)
//
// The allocator records a block's events in the call that frees it, and recycles them before the
// block is used again.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ebbtide/allocator/stream_events.hpp"

namespace ebbtide::plugin::cuda {

class ReuseWatcher {
 public:
  virtual ~ReuseWatcher() = default;
  // Locks of the allocator may be held: it must not be called from here.
  virtual void onReusable(const void* block) noexcept = 0;
};

class WatchedEvents final : public allocator::StreamEvents {
 public:
  WatchedEvents(std::unique_ptr<allocator::StreamEvents> events, ReuseWatcher& watcher)
      : events_(std::move(events)), watcher_(watcher) {}

  Event record(allocator::Stream stream) noexcept override;
  bool isDone(Event event) noexcept override {
    return captures_.load(std::memory_order_acquire) == 0 && events_->isDone(event);
  }
  void recycle(Event event) noexcept override;
  bool synchronize(std::chrono::nanoseconds most) noexcept override;

  // Between them, events are recorded where no graph is captured, and nothing is asked or waited
  // for: the driver forbids it. They nest.
  void beginCapture() noexcept { captures_.fetch_add(1, std::memory_order_acq_rel); }
  void endCapture() noexcept { captures_.fetch_sub(1, std::memory_order_acq_rel); }
  bool capturing() const noexcept { return captures_.load(std::memory_order_acquire) > 0; }

  std::int64_t synchronizations() const noexcept {
    return synchronizations_.load(std::memory_order_relaxed);
  }

  // While one is alive, what this thread records is for this block.
  class FreeScope {
   public:
    explicit FreeScope(const void* block) noexcept : block_(block), outer_(current) {
      current = this;
    }
    ~FreeScope() { current = outer_; }
    FreeScope(const FreeScope&) = delete;
    FreeScope& operator=(const FreeScope&) = delete;
    bool recorded() const noexcept { return recorded_; }  // something that the block waits for

   private:
    friend class WatchedEvents;
    static thread_local FreeScope* current;
    const void* const block_;
    FreeScope* const outer_;
    bool recorded_ = false;
  };

 private:
  void oneDone(const void* block, std::vector<const void*>& reusable) noexcept;

  const std::unique_ptr<allocator::StreamEvents> events_;
  ReuseWatcher& watcher_;
  std::atomic<int> captures_{0};
  std::atomic<std::int64_t> synchronizations_{0};
  std::mutex mutex_;                              // guards all below
  std::unordered_map<Event, const void*> waits_;  // whose event it is
  std::unordered_map<const void*, int> left_;     // events, by block
  std::vector<const void*> untold_;               // one for each event that the device refused
};

}  // namespace ebbtide::plugin::cuda
