// GpuIdentity: which GPU a process trains on. Includes neither torch nor CUDA.
#pragma once

#include <string>

namespace ebbtide::plugin {

struct GpuIdentity {
  int index = 0;     // as the process counts those that are visible to it
  std::string uuid;  // "GPU-…", as nvidia-smi and the DCGM exporter write it; empty: not known
};

// "GPU-01234567-89ab-cdef-0123-456789abcdef"
std::string uuidText(const char (&bytes)[16]);

}  // namespace ebbtide::plugin
