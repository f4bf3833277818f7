// TracedScope: what the executor does, as those show it who look: an event of torch.profiler, where
// CUDA is built in a range of NVTX, and a span of the run's own trace. Includes torch.
//
//   ebbtide::ahead ─┬─ ebbtide::recompute ── aten::gelu
//                   └─ ebbtide::restore
//
// Nobody looks: a few loads. Our own hooks do not see the event. On the thread that works.
#pragma once

#include <ATen/record_function.h>

#include "observe/memory_history.hpp"
#include "observe/run_trace.hpp"

namespace ebbtide::plugin {

class TracedScope {
 public:
  // `op`: its name, which lives as long as the process; nullptr: of none.
  TracedScope(RunTrace& trace, TracedSpan::Kind work, const char* op = nullptr,
              std::int64_t bytes = 0);
  ~TracedScope();
  TracedScope(const TracedScope&) = delete;
  TracedScope& operator=(const TracedScope&) = delete;

  // What the calling thread's innermost one is for; its `what` is empty where there is none.
  static WorkInHand current() noexcept;

 private:
  at::RecordFunction event_{at::RecordScope::FUNCTION};
  RunTrace& trace_;
  TracedSpan span_;  // begin_ns 0: of no trace
  const TracedScope* const outer_;
};

}  // namespace ebbtide::plugin
