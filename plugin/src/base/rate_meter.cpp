#include "base/rate_meter.hpp"

namespace ebbtide::plugin {

void RateMeter::add(std::int64_t bytes, std::int64_t duration_ns) noexcept {
  if (bytes_.load(std::memory_order_relaxed) > remembered_bytes_) {  // two threads at once: no harm
    bytes_ = bytes_ / 2;
    duration_ns_ = duration_ns_ / 2;
  }
  bytes_ += bytes;
  duration_ns_ += duration_ns;
}

double RateMeter::nanosecondsFor(std::int64_t bytes) const noexcept {
  const auto measured_bytes = static_cast<double>(bytes_.load(std::memory_order_relaxed));
  const auto measured_ns = static_cast<double>(duration_ns_.load(std::memory_order_relaxed));
  const auto wanted = static_cast<double>(bytes);
  if (measured_bytes <= 0) return wanted / assumed_bytes_per_ns_;
  return wanted * measured_ns / measured_bytes;
}

}  // namespace ebbtide::plugin
