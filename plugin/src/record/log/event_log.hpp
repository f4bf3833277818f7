// EventLog: the stream of one recorded step, filled by the allocator, the recorder and the
// saved-tensor hooks.
//
// Thread rule: any thread may append; one guard, held for an append only. Torch-free.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/address_map.hpp"
#include "base/guard.hpp"
#include "base/run_clock.hpp"
#include "ebbtide/allocator/budget_tracker.hpp"
#include "ebbtide/allocator/observed_resource.hpp"
#include "ebbtide/allocator/spin_lock.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::plugin {

// When a thread did something.
struct ThreadMoment {
  RunClock::time_point at = {};
  scheduler::Nanoseconds busy_ns = 0;  // processor time of the thread since it began

  static ThreadMoment now() noexcept;  // of the calling thread
};

// A message and the process group that carries it.
struct GroupMessage {
  scheduler::TraceMessage message = {};  // without its time
  std::string group = {};
  std::int32_t rank = scheduler::kNone;  // this process's
  std::int32_t size = 0;
};

class EventLog final : public allocator::Observer {
  using Lock = Guard<EventLog, allocator::SpinLock>;
  using Held = Lock::Held;

 public:
  // By the thread that trains: its time begins here. `mapped_in`: what is mapped there is noted;
  // it must outlive this.
  explicit EventLog(std::int64_t base_bytes, const allocator::BudgetTracker* mapped_in = nullptr);
  ~EventLog() override;
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  void onAllocate(const void* block, allocator::Bytes block_bytes) noexcept override;
  void onFree(const void* block, allocator::Bytes block_bytes) noexcept override;

  // Returns the event's position, to be given to erase() when the op turns out to make no value.
  std::size_t add(scheduler::TraceEvent::Kind kind, std::int32_t id);
  void addNode(const char* name);  // a node of the autograd graph begins
  void erase(std::size_t position);
  // The block that starts at this address; a block that was there before the step gets its id now.
  scheduler::BlockId blockAt(const void* block, allocator::Bytes block_bytes);
  // The same, of that memory, which is asked for a size only where it is not known, and then
  // without the log's lock.
  scheduler::BlockId blockAt(const void* block, const allocator::MemoryResource& memory);

  // What the thread that trains sends, receives and says that it does (step_marks.hpp), by that
  // thread. A mark that is told later takes its place among the events.
  void startAt(const ThreadMoment& moment);  // the step began before its log
  void addMessage(const GroupMessage& message, const ThreadMoment& moment);
  std::int32_t beginScope(std::string name, const ThreadMoment& moment);  // kNone: no room
  void endScope(std::int32_t scope, const ThreadMoment& moment);

  // No saved tensor of the step is left; another op of it ends the rest. When that lasts, another
  // step may observe the allocator in its place: its thread may never begin one again.
  void rest() noexcept;
  void noteUpdated() noexcept {  // the optimizer's step is over, or a parameter written by hand
    const Held held = guard_.hold();
    updated_at_ = events_.size();
  }
  void noteUse() noexcept {  // a tensor was saved
    uses_.fetch_add(1, std::memory_order_relaxed);
  }
  // True also before anything was saved: the step may be no more than a look at a parameter.
  bool restsSince(std::chrono::steady_clock::duration least) const noexcept;

  // Backward passes so far. A step that runs some for ever writes no parameter.
  std::int64_t passes() const noexcept { return backward_passes_.load(std::memory_order_relaxed); }

  // What was saved is let go of, and nothing ran backward: the thread's next op begins another one.
  bool isOver() const noexcept;
  bool ranBackward() const noexcept;  // on whatever thread

  // Half of the saved tensors (of kFewUses at least) were released and not read: the program keeps
  // only its last results. A program that trains releases what its backward pass has read.
  static constexpr std::int64_t kFewUses = 16;
  bool losesUses() const noexcept;

  // What lives of the blocks that the step allocated, and where in it that was.
  struct LiveBlock {
    const void* block;
    std::int32_t op;      // kNone: in none
    bool since_backward;  // after the first backward node began
    bool before_ops;      // before the first recorded op
    bool after_update;    // by the optimizer
  };
  std::vector<LiveBlock> liveBlocks() const;

  // Moves events and blocks into the trace. The log must no longer be observed.
  void moveInto(scheduler::Trace& trace);

  void lockForFork() { guard_.lockForFork(); }
  void unlockAfterFork() { guard_.unlockAfterFork(); }

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
  static constexpr std::size_t kMostMarks = 100'000;  // messages, and scopes

  scheduler::Nanoseconds now(const Held& held) const { return sinceStart(held, RunClock::now()); }
  scheduler::Nanoseconds sinceStart(const Held&, RunClock::time_point at) const;
  scheduler::Nanoseconds busySinceStart(const Held&, const ThreadMoment& moment) const;
  void insert(const Held&, scheduler::TraceEvent event);
  void end(const Held& held, std::size_t scope, const ThreadMoment& moment);
  void noteMapped(const Held&, scheduler::Nanoseconds at_ns);

  mutable Lock guard_;
  RunClock::time_point start_ = RunClock::now();
  std::int64_t base_bytes_;
  const allocator::BudgetTracker* const mapped_in_;
  std::vector<scheduler::TraceMapped> mapped_;
  AddressMap<scheduler::BlockId> open_;
  std::vector<scheduler::TraceBlock> blocks_;
  std::vector<scheduler::TraceEvent> events_;
  std::size_t updated_at_ = SIZE_MAX;  // of the events
  scheduler::Nanoseconds busy_start_ns_ = ThreadMoment::now().busy_ns;
  struct Marks {
    GroupMessage group;  // the first message
    std::vector<scheduler::TraceMessage> messages;
    std::vector<scheduler::TraceScope> scopes;
    std::vector<bool> ended;  // per scope
  };
  Marks marks_;
  std::vector<std::string> nodes_;
  std::unordered_map<std::string, std::int32_t> number_of_node_;  // index into nodes_
  std::size_t most_events_ = kMostAfter;
  std::atomic<std::int64_t> uses_{0};  // tensors that were saved
  std::int64_t unread_ = 0;            // of these, released; less each read
  std::atomic<std::int64_t> backward_passes_{0};
  bool ran_backward_ = false;
  std::optional<std::chrono::steady_clock::time_point> rests_since_;
};

}  // namespace ebbtide::plugin
