// comesTrue: tests wait for what another thread or process does.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace ebbtide::plugin {

// Looks until it holds. False: it did not within ten minutes, which only ends a hang.
inline bool comesTrue(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace ebbtide::plugin
