#include "step_histogram.hpp"

#include <algorithm>
#include <limits>

namespace ebbtide::metrics {

void StepHistogram::observe(double seconds) noexcept {
  const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
  sum_seconds_.fetch_add(seconds, std::memory_order_relaxed);
  counts_[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
}

prometheus::ClientMetric::Histogram StepHistogram::collect() const {
  prometheus::ClientMetric::Histogram out;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    out.sample_count += counts_[i].load(std::memory_order_relaxed);
    out.bucket.push_back({out.sample_count, i < kBounds.size()
                                                ? kBounds[i]
                                                : std::numeric_limits<double>::infinity()});
  }
  out.sample_sum = sum_seconds_.load(std::memory_order_relaxed);
  return out;
}

}  // namespace ebbtide::metrics
