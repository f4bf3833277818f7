// TracedStep: when a step, its forward and its backward passes began and ended, for RunTrace.
//
//   step      ├──────────────────────────────────────────────────┤
//   phases    ├ forward ┤├ backward ┤├ forward ┤├ backward ┤   the optimizer, and what is between
//
// Thread rule: any thread; made and ended by the thread that trains. Torch-free.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "observe/run_trace.hpp"

namespace ebbtide::plugin {

class TracedStep {
 public:
  TracedStep(RunTrace& trace, std::int64_t number) : trace_(trace), traced_(trace.on()) {
    if (!traced_) return;
    whole_ = {.kind = TracedSpan::Kind::kStep,
              .thread = threadNumber(),
              .begin_ns = steadyNanoseconds(),
              .number = number};
    begin(TracedSpan::Kind::kForward, whole_.begin_ns);
    trace_.sampleMemory(true);
  }

  void noteForward() noexcept {
    if (traced()) note(TracedSpan::Kind::kForward);
  }
  void noteBackward() noexcept {
    if (traced()) note(TracedSpan::Kind::kBackward);
  }
  // Without a backward pass it is none, and its number the next one's.
  void end(bool had_backward) noexcept;

 private:
  // In a forked child nobody looks, and the lock may be another thread's.
  bool traced() const noexcept { return traced_ && trace_.on(); }
  void note(TracedSpan::Kind kind) noexcept;
  void begin(TracedSpan::Kind kind, std::int64_t at_ns) noexcept {
    phase_ = {.kind = kind, .thread = threadNumber(), .begin_ns = at_ns, .end_ns = at_ns};
  }

  RunTrace& trace_;
  const bool traced_;
  std::mutex mutex_;  // guards all below
  TracedSpan whole_;
  std::optional<TracedSpan> phase_;  // that is not over, up to when it was noted last
};

}  // namespace ebbtide::plugin
