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

// Has this thread begun a training step? Only such threads are stopped over an impossible budget:
// an error in a communication thread would help nobody.
inline bool& trainingThread() noexcept {
  thread_local bool value = false;
  return value;
}

}  // namespace ebbtide::plugin
