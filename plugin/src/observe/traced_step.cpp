#include "observe/traced_step.hpp"

#include <utility>

namespace ebbtide::plugin {

// A backward pass ends where it was noted last: what follows is the optimizer's. A forward pass
// ends where the other begins.
void TracedStep::note(TracedSpan::Kind kind) noexcept {
  const std::int64_t now_ns = steadyNanoseconds();
  TracedSpan over;
  {
    const std::lock_guard lock(mutex_);
    if (!phase_) return;  // the step has ended
    const bool goes_on = phase_->kind == kind;
    if (goes_on || kind == TracedSpan::Kind::kBackward) phase_->end_ns = now_ns;
    if (goes_on) return;
    over = *phase_;
    begin(kind, now_ns);
  }
  trace_.add(over);
  trace_.sampleMemory(true);
}

void TracedStep::end(bool had_backward) noexcept {
  if (!traced()) return;
  std::optional<TracedSpan> phase;
  {
    const std::lock_guard lock(mutex_);
    phase = std::exchange(phase_, std::nullopt);
  }
  if (!phase || !had_backward) return;
  trace_.sampleMemory(true);
  whole_.end_ns = steadyNanoseconds();
  if (phase->kind == TracedSpan::Kind::kForward) phase->end_ns = whole_.end_ns;
  trace_.add(*phase);
  trace_.add(whole_);
}

}  // namespace ebbtide::plugin
