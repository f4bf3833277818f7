// RunFigures: the time and the memory that the steps of a run took. Torch-free; whoever has it
// guards it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ebbtide/allocator/device_memory.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::plugin {

class RunFigures {
 public:
  struct Moment {
    double seconds = 0;  // since the step's start
    std::int64_t live_bytes = 0;
    std::int64_t mapped_bytes = 0;  // 0: not recorded

    bool operator==(const Moment&) const = default;
  };
  using Timeline = std::vector<Moment>;

  void addStep(double seconds) { step_seconds_.push_back(seconds); }
  double firstSeconds() const { return step_seconds_.empty() ? 0 : step_seconds_.front(); }
  double totalSeconds() const;
  double medianSeconds() const { return medianOfLast(step_seconds_.size()).value_or(0); }
  // The upper one of two; nothing: no step is over.
  std::optional<double> medianOfLast(std::size_t steps) const;

  void notePeaks(const allocator::Statistics& memory);
  void forgetPeaks() { allocated_peak_bytes_ = mapped_peak_bytes_ = 0; }
  std::int64_t allocatedPeakBytes() const { return allocated_peak_bytes_; }
  std::int64_t mappedPeakBytes() const { return mapped_peak_bytes_; }

  // Of a recorded step, in place of the one before.
  void noteTimeline(const scheduler::Trace& trace);
  std::shared_ptr<const Timeline> timeline() const { return timeline_; }
  // At most so many points, each the one of its stretch with most live bytes, and the most that was
  // mapped in it, so that both peaks survive.
  static Timeline thinned(const Timeline& timeline, std::size_t most_points);

 private:
  std::vector<double> step_seconds_;
  std::int64_t allocated_peak_bytes_ = 0, mapped_peak_bytes_ = 0;
  std::shared_ptr<const Timeline> timeline_ = std::make_shared<Timeline>();
};

}  // namespace ebbtide::plugin
