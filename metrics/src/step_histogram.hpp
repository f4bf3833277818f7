// StepHistogram: durations of steps. prometheus-cpp's own takes a lock in Observe(), for which a
// training thread would wait while a scrape has it.
#pragma once

#include <prometheus/client_metric.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace ebbtide::metrics {

class StepHistogram {
 public:
  // Seconds, about three to a decade: from a toy model's step to one that recomputes and spills a
  // lot.
  static constexpr std::array<double, 10> kBounds = {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300};

  void observe(double seconds) noexcept;
  // Of steps that end meanwhile the sum may know, and the buckets not.
  prometheus::ClientMetric::Histogram collect() const;

 private:
  std::array<std::atomic<std::uint64_t>, kBounds.size() + 1> counts_{};  // the last: above all
  std::atomic<double> sum_seconds_{0};
};

}  // namespace ebbtide::metrics
