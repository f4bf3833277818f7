// RunFigures: the time and the memory that the steps of a run took. Torch-free; whoever has it
// guards it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
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

  void addStep(double seconds) noexcept;
  double firstSeconds() const { return first_seconds_; }
  double totalSeconds() const { return total_seconds_; }

  void notePeaks(const allocator::Statistics& memory);
  void forgetPeaks() { allocated_peak_bytes_ = mapped_peak_bytes_ = used_peak_bytes_ = 0; }
  std::int64_t allocatedPeakBytes() const { return allocated_peak_bytes_; }
  std::int64_t mappedPeakBytes() const { return mapped_peak_bytes_; }
  std::int64_t usedPeakBytes() const { return used_peak_bytes_; }  // and what others held then

  // The most that a step used at a time, of what no budget counts.
  void noteUncounted(std::int64_t bytes) { uncounted_bytes_ = std::max(uncounted_bytes_, bytes); }
  std::int64_t uncountedBytes() const { return uncounted_bytes_; }

  // Of a recorded step, in place of the one before.
  void noteTimeline(const scheduler::Trace& trace);
  std::shared_ptr<const Timeline> timeline() const { return timeline_; }
  // At most so many points, each the one of its stretch with most live bytes, and the most that was
  // mapped in it, so that both peaks survive.
  static Timeline thinned(const Timeline& timeline, std::size_t most_points);

 private:
  std::uint64_t steps_ = 0;
  double first_seconds_ = 0, total_seconds_ = 0;
  std::int64_t allocated_peak_bytes_ = 0, mapped_peak_bytes_ = 0, used_peak_bytes_ = 0;
  std::int64_t uncounted_bytes_ = 0;
  std::shared_ptr<const Timeline> timeline_ = std::make_shared<Timeline>();
};

}  // namespace ebbtide::plugin
