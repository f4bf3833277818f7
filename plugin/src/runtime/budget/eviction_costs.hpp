// EvictionCosts: what checksums take in this process, how much memory replays without a plan may
// take, and in which order values go when memory is short. Torch-free; any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/rate_meter.hpp"

namespace ebbtide::plugin {

class EvictionCosts {
 public:
  // Gigabytes a second, which are bytes a nanosecond.
  RateMeter checksum{8.0, std::int64_t{2} << 30};

  // When it is dropped, and when it is back.
  double checksumsNs(std::int64_t bytes) const noexcept {
    return 2 * checksum.nanosecondsFor(bytes);
  }

  // At a moment of pressure: live bytes that nothing could have evicted then.
  void noteUnevictable(std::int64_t bytes) noexcept;
  // What replays may have live beside that. Three quarters of what is left: between two such
  // moments it may be more, and ops take workspaces. `floor_bytes`: the smallest budget that is
  // known to do, 0 where none is.
  std::int64_t transientBytes(std::int64_t budget_bytes, std::int64_t floor_bytes) const noexcept;

 private:
  std::atomic<std::int64_t> unevictable_bytes_{0};
};

// The smaller, the sooner it goes: cost over size × the time for which nobody has read it.
double evictionScore(double cost_ns, std::int64_t bytes, std::uint64_t idle) noexcept;

}  // namespace ebbtide::plugin
