// EventLog: the stream of one recorded step, filled by the allocator, the recorder and the
// saved-tensor hooks.
//
// Thread rule: any thread may append; one mutex, held for an append only. Torch-free.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ebbtide/allocator/observed_resource.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::plugin {

class EventLog final : public allocator::Observer {
 public:
  explicit EventLog(std::int64_t base_bytes);

  void onAllocate(const void* block, allocator::Bytes block_bytes) noexcept override;
  void onFree(const void* block, allocator::Bytes block_bytes) noexcept override;

  // Returns the event's position, to be given to erase() when the op turns out to make no value.
  std::size_t add(scheduler::TraceEvent::Kind kind, std::int32_t id);
  void erase(std::size_t position);
  // The block that starts at this address; a block that was there before the step gets its id now.
  scheduler::BlockId blockAt(const void* block, allocator::Bytes block_bytes);

  // No saved tensor of the step is left; another op of it ends the rest. When that lasts, another
  // step may observe the allocator in its place: its thread may never begin one again.
  void rest() noexcept;
  void noteUse() noexcept {  // a tensor was saved
    used_.store(true, std::memory_order_relaxed);
  }
  // True also before anything was saved: the step may be no more than a look at a parameter.
  bool restsSince(std::chrono::steady_clock::duration least) const noexcept;

  // What lives of the blocks that the step allocated, and where in it that was.
  struct LiveBlock {
    const void* block;
    std::int32_t op;      // kNone: in none
    bool since_backward;  // after the first backward node began
  };
  std::vector<LiveBlock> liveBlocks() const;

  // Moves events and blocks into the trace. The log must no longer be observed.
  void moveInto(scheduler::Trace& trace);

  void lockForFork() { mutex_.lock(); }
  void unlockAfterFork() { mutex_.unlock(); }

  // Allocations of this thread belong to us (replays, fetches) while one of these is alive.
  class OursScope {
   public:
    OursScope();
    ~OursScope();
    OursScope(const OursScope&) = delete;
    OursScope& operator=(const OursScope&) = delete;
  };

 private:
  // Allocations and frees kept after the last event of the step's own. An evaluation that goes on
  // for hours is no part of the step.
  static constexpr std::size_t kMostAfter = 200'000;

  scheduler::Nanoseconds now() const;

  mutable std::mutex mutex_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::int64_t base_bytes_;
  std::unordered_map<const void*, scheduler::BlockId> open_;
  std::vector<scheduler::TraceBlock> blocks_;
  std::vector<scheduler::TraceEvent> events_;
  std::size_t most_events_ = kMostAfter;
  std::atomic<bool> used_{false};
  std::optional<std::chrono::steady_clock::time_point> rests_since_;
};

}  // namespace ebbtide::plugin
