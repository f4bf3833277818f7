#include "faults.hpp"

#include "memory.hpp"
#include "settings.hpp"

namespace emulated_gpu {

bool refusePage() {
  static long created = 0;
  return ++created == settings().fail_page;
}

CUresult refuseLaunch(Device& device) {
  static long launched = 0;
  ++launched;
  const long every = settings().others_every;
  if (every > 0 && launched % every == 0 && device.used_bytes + kPageBytes <= device.total_bytes) {
    device.used_bytes += kPageBytes;
  }
  return launched == settings().fail_launch ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_SUCCESS;
}

void trapIfAsked(Device& device) {
  static long run = 0;
  if (++run != settings().trap) return;
  log("kernel %ld traps", run);
  device.broken = CUDA_ERROR_LAUNCH_FAILED;
}

}  // namespace emulated_gpu
