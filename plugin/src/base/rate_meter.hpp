// RateMeter: what moving or reading bytes takes in this process. Torch-free; any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace ebbtide::plugin {

// Bytes over time: what came before the last `remembered_bytes` counts half, and less.
class RateMeter {
 public:
  // `bytes_per_ns`: what is assumed until something has been measured.
  RateMeter(double bytes_per_ns, std::int64_t remembered_bytes)
      : assumed_bytes_per_ns_(bytes_per_ns), remembered_bytes_(remembered_bytes) {}

  void add(std::int64_t bytes, std::int64_t duration_ns) noexcept;
  // In place of all that was measured.
  void set(std::int64_t bytes, std::int64_t duration_ns) noexcept {
    bytes_ = bytes;
    duration_ns_ = duration_ns;
  }
  // As if what was measured had taken so many times as long.
  void stretch(int times) noexcept { duration_ns_ = duration_ns_ * times; }
  double nanosecondsFor(std::int64_t bytes) const noexcept;
  std::int64_t measuredBytes() const noexcept { return bytes_; }

 private:
  const double assumed_bytes_per_ns_;
  const std::int64_t remembered_bytes_;
  std::atomic<std::int64_t> bytes_{0}, duration_ns_{0};
};

}  // namespace ebbtide::plugin
