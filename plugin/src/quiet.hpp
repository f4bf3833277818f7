// While one lives on a thread, the recorder and the saved-tensor hooks ignore what that thread
// does.
#pragma once

namespace ebbtide::plugin {

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

// Is this thread inside an op of a training step? Only there an impossible budget stops the
// program: saving a checkpoint in an exception handler, or a communication thread, must go on.
inline bool& inTrainingOp() noexcept {
  thread_local bool value = false;
  return value;
}

}  // namespace ebbtide::plugin
