// What a thread is doing, for the recorder, the saved-tensor hooks and the allocator.
#pragma once

#include <cstdint>

namespace ebbtide::plugin {

// While one lives on a thread, the recorder and the saved-tensor hooks ignore what it does.
class QuietScope {
 public:
  QuietScope() noexcept : before_(flag()) { flag() = true; }
  ~QuietScope() { flag() = before_; }
  QuietScope(const QuietScope&) = delete;
  QuietScope& operator=(const QuietScope&) = delete;

  static bool active() noexcept { return flag(); }

 private:
  static bool& flag() noexcept {
    thread_local bool value = false;
    return value;
  }
  bool before_;
};

// While one lives on a thread, host blocks come from the system, outside of the budget: what is
// ours must never fail where the program would go on.
class OwnMemoryScope {
 public:
  OwnMemoryScope() noexcept : before_(flag()) { flag() = true; }
  ~OwnMemoryScope() { flag() = before_; }
  OwnMemoryScope(const OwnMemoryScope&) = delete;
  OwnMemoryScope& operator=(const OwnMemoryScope&) = delete;

  static bool active() noexcept { return flag(); }

 private:
  static bool& flag() noexcept {
    thread_local bool value = false;
    return value;
  }
  bool before_;
};

// Is this thread inside an op of a training step? Only there an impossible budget stops the
// program: saving a checkpoint in an exception handler, or a communication thread, must go on.
inline bool& inTrainingOp() noexcept {
  thread_local bool value = false;
  return value;
}

// What this thread has spent so far on giving up values, inside ops that allocated.
inline std::int64_t& evictionNs() noexcept {
  thread_local std::int64_t value = 0;
  return value;
}

}  // namespace ebbtide::plugin
