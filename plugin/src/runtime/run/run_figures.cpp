#include "runtime/run/run_figures.hpp"

#include <algorithm>
#include <utility>

namespace ebbtide::plugin {

void RunFigures::addStep(double seconds) noexcept {
  if (steps_ == 0) first_seconds_ = seconds;
  ++steps_;
  total_seconds_ += seconds;
}

void RunFigures::notePeaks(const allocator::Statistics& memory) {
  allocated_peak_bytes_ = std::max(allocated_peak_bytes_, memory.allocated_peak_bytes);
  mapped_peak_bytes_ = std::max(mapped_peak_bytes_, memory.mapped_peak_bytes);
  used_peak_bytes_ = std::max(used_peak_bytes_, memory.used_peak_bytes);
}

void RunFigures::noteTimeline(const scheduler::Trace& trace) {
  using Kind = scheduler::TraceEvent::Kind;
  Timeline timeline;
  std::int64_t live = trace.base_bytes;
  auto next_mapped = trace.mapped.begin();
  std::int64_t mapped = 0;
  const auto add = [&](scheduler::Nanoseconds at_ns) {
    for (; next_mapped != trace.mapped.end() && next_mapped->at_ns <= at_ns; ++next_mapped)
      mapped = next_mapped->bytes;
    timeline.push_back({static_cast<double>(at_ns) * 1e-9, live, mapped});
  };
  add(0);
  for (const auto& event : trace.events) {
    const int sign = event.kind == Kind::kAlloc ? 1 : event.kind == Kind::kFree ? -1 : 0;
    if (sign == 0) continue;
    live += sign * trace.blocks[event.id].bytes;
    add(event.at_ns);
  }
  timeline_ = std::make_shared<const Timeline>(std::move(timeline));
}

RunFigures::Timeline RunFigures::thinned(const Timeline& timeline, std::size_t most_points) {
  Timeline thinned;
  const std::size_t stretch = std::max<std::size_t>(1, timeline.size() / most_points + 1);
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const Moment& moment = timeline[i];
    if (i % stretch == 0) {
      thinned.push_back(moment);
      continue;
    }
    Moment& kept = thinned.back();
    const std::int64_t mapped = std::max(kept.mapped_bytes, moment.mapped_bytes);
    if (moment.live_bytes > kept.live_bytes) kept = moment;
    kept.mapped_bytes = mapped;
  }
  return thinned;
}

}  // namespace ebbtide::plugin
