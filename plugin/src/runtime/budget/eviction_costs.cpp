#include "runtime/budget/eviction_costs.hpp"

#include <algorithm>

namespace ebbtide::plugin {

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
