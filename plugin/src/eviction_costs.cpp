#include "eviction_costs.hpp"

#include <algorithm>

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kRemembered = std::int64_t{2} << 30;  // bytes; then half of them fade

}  // namespace

void RateMeter::add(std::int64_t bytes, std::int64_t duration_ns) noexcept {
  if (bytes_.load(std::memory_order_relaxed) > kRemembered) {  // two threads at once: no harm
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

void EvictionCosts::noteUnevictable(std::int64_t bytes) noexcept {
  std::int64_t most = unevictable_bytes_.load();
  while (bytes > most && !unevictable_bytes_.compare_exchange_weak(most, bytes)) {
  }
}

std::int64_t EvictionCosts::transientBytes(std::int64_t budget_bytes,
                                           std::int64_t floor_bytes) const noexcept {
  const std::int64_t needed = std::max(unevictable_bytes_.load(), floor_bytes);
  return std::max<std::int64_t>(0, (budget_bytes - needed) / 4 * 3);
}

double evictionScore(double cost_ns, std::int64_t bytes, std::uint64_t idle) noexcept {
  return cost_ns / (static_cast<double>(std::max<std::int64_t>(bytes, 1)) *
                    static_cast<double>(std::max<std::uint64_t>(idle, 1)));
}

}  // namespace ebbtide::plugin
