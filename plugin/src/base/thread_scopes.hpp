// What a thread is doing, for the recorder, the saved-tensor hooks and the allocator.
#pragma once

#include <cstdint>

namespace ebbtide::plugin {

// While one lives on a thread, active() is true on it. Scopes nest. `Kind` names what they are for.
template <class Kind>
class ThreadScope {
 public:
  ThreadScope() noexcept : before_(flag()) { flag() = true; }
  ~ThreadScope() { flag() = before_; }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

  static bool active() noexcept { return flag(); }

 private:
  static bool& flag() noexcept {
    thread_local bool value = false;
    return value;
  }
  bool before_;
};

// The recorder and the saved-tensor hooks ignore what the thread does.
using QuietScope = ThreadScope<struct Quiet>;

// The thread's host blocks come from the system, outside of the budget: what is ours must never
// fail where the program would go on.
using OwnMemoryScope = ThreadScope<struct OwnMemory>;

// What fails in one is caught by us: the program is given no error.
using TrialScope = ThreadScope<struct Trial>;

// Is this thread inside an op of a training step? Only there an impossible budget stops the
// program: saving a checkpoint in an exception handler, or a communication thread, must go on.
inline bool& inTrainingOp() noexcept {
  thread_local bool value = false;
  return value;
}

// The outermost op that this thread runs and no step records, but in a backward pass or in
// Optimizer.step.
struct UnrecordedOp {
  const void* call = nullptr;  // torch's; nullptr: none runs
  const char* name = nullptr;  // valid while it runs
};
inline UnrecordedOp& unrecordedOp() noexcept {
  thread_local UnrecordedOp value;
  return value;
}

// What this thread has spent so far on giving up values, inside ops that allocated.
inline std::int64_t& evictionNs() noexcept {
  thread_local std::int64_t value = 0;
  return value;
}

}  // namespace ebbtide::plugin
