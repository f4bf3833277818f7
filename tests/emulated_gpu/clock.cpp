#include "clock.hpp"

#include "settings.hpp"

namespace emulated_gpu {

Nanoseconds kernelTime(std::size_t bytes) {
  return kLaunch + static_cast<double>(bytes) / 100;
}

Nanoseconds deviceCopyTime(std::size_t bytes) {
  return 3000 + static_cast<double>(bytes) / 400;
}

// Above 100 GB/s it is a link that costs nothing to use.
Nanoseconds hostCopyTime(std::size_t bytes) {
  const double rate = settings().host_bytes_per_ns;
  return (rate > 100 ? 0 : 8000) + static_cast<double>(bytes) / rate;
}

Nanoseconds spinTime(long long cycles) {
  return static_cast<double>(cycles) / 1.5;
}  // 1.5 GHz

}  // namespace emulated_gpu
