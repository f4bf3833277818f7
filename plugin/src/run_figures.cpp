#include "run_figures.hpp"

#include <algorithm>

namespace ebbtide::plugin {

std::optional<double> RunFigures::medianOfLast(std::size_t steps) const {
  const std::size_t count = std::min(step_seconds_.size(), steps);
  if (count == 0) return std::nullopt;
  std::vector<double> last(step_seconds_.end() - static_cast<std::ptrdiff_t>(count),
                           step_seconds_.end());
  const auto middle = last.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(last.begin(), middle, last.end());
  return *middle;
}

void RunFigures::notePeaks(const allocator::Statistics& memory) {
  allocated_peak_bytes_ = std::max(allocated_peak_bytes_, memory.allocated_peak_bytes);
  mapped_peak_bytes_ = std::max(mapped_peak_bytes_, memory.mapped_peak_bytes);
}

void RunFigures::noteTimeline(const scheduler::Trace& trace) {
  using Kind = scheduler::TraceEvent::Kind;
  Timeline timeline;
  std::int64_t live = trace.base_bytes;
  timeline.emplace_back(0.0, live);
  for (const auto& event : trace.events) {
    const int sign = event.kind == Kind::kAlloc ? 1 : event.kind == Kind::kFree ? -1 : 0;
    if (sign == 0) continue;
    live += sign * trace.blocks[event.id].bytes;
    timeline.emplace_back(static_cast<double>(event.at_ns) * 1e-9, live);
  }
  timeline_ = std::make_shared<const Timeline>(std::move(timeline));
}

RunFigures::Timeline RunFigures::thinned(const Timeline& timeline, std::size_t most_points) {
  Timeline thinned;
  const std::size_t stretch = std::max<std::size_t>(1, timeline.size() / most_points + 1);
  for (std::size_t i = 0; i < timeline.size(); i += stretch) {
    const std::size_t last = std::min(timeline.size(), i + stretch);
    thinned.push_back(
        *std::max_element(timeline.begin() + static_cast<std::ptrdiff_t>(i),
                          timeline.begin() + static_cast<std::ptrdiff_t>(last),
                          [](const auto& a, const auto& b) { return a.second < b.second; }));
  }
  return thinned;
}

}  // namespace ebbtide::plugin
