#include "observe/message_wait.hpp"

namespace ebbtide::plugin {

void MessageWait::look(RunTrace& trace) noexcept {
  if (looks_left_ == 0) return;
  --looks_left_;
  const ThreadMoment now = ThreadMoment::now();
  const auto passed = std::chrono::duration_cast<std::chrono::nanoseconds>(now.at - last_.at);
  const std::int64_t idle_ns = passed.count() - (now.busy_ns - last_.busy_ns);
  last_ = now;
  if (idle_ns < kShortest) return;
  const std::int64_t end_ns = steadyNanoseconds();
  trace.add({.kind = TracedSpan::Kind::kWait,
             .thread = threadNumber(),
             .begin_ns = end_ns - idle_ns,
             .end_ns = end_ns});
}

}  // namespace ebbtide::plugin
