// DeferredFrees: freed blocks that other streams may still use.
//
//   live ─ recordStream(s) ─► shared ─ free: an event on each s ─► awaiting ─ all done ─► free
//
// Thread rule: any thread; one mutex, and no lock of a pool is held when it is taken.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ebbtide/allocator/stream_events.hpp"

namespace ebbtide::allocator {

class DeferredFrees {
 public:
  explicit DeferredFrees(StreamEvents& events) noexcept : events_(events) {}

  // Where there is no memory to note it the block is lost to reuse: it awaits for ever.
  void share(void* block, Stream stream) noexcept;
  // kFree: nothing is left to wait for. kUnknown: the block was never shared, or is awaiting.
  enum class Outcome { kFree, kAwaiting, kUnknown };
  Outcome defer(void* block) noexcept;
  // Hands out a block whose events are done. False: it looked at a few blocks, or at all, and found
  // none. Asks the device nothing when no block waits.
  enum class Look { kAtFew, kAtAll };
  bool popDone(void*& block, Look look) noexcept;
  bool anyAwaiting() const noexcept { return awaiting_count_.load(std::memory_order_relaxed) > 0; }
  // What is awaiting now is done after a synchronize() that is called now:
  //   mark = lastDeferred() ─ synchronize() ─ allDoneUpTo(mark)
  // Another thread may defer a block in between; its events are not known to be done.
  std::uint64_t lastDeferred() noexcept;
  void allDoneUpTo(std::uint64_t mark) noexcept;

  void lockForFork() noexcept { mutex_.lock(); }
  void unlockAfterFork() noexcept { mutex_.unlock(); }

 private:
  struct Awaiting {
    void* block;
    std::uint64_t number;  // as deferred, from 1
    std::vector<StreamEvents::Event> events;
  };

  static constexpr std::size_t kLooks = 16;  // that one popDone() takes

  bool isDone(Awaiting& awaiting) noexcept;

  StreamEvents& events_;
  std::mutex mutex_;
  std::unordered_map<void*, std::vector<Stream>> shared_;
  bool lost_note_ = false;  // a shared block may have no note
  std::deque<Awaiting> awaiting_;
  std::size_t next_look_ = 0;  // where the last popDone() ended
  std::uint64_t deferred_ = 0;
  std::atomic<std::size_t> awaiting_count_{0};
};

}  // namespace ebbtide::allocator
