// HostShare: which processors this process may run on, as it tells the other ranks. Torch-free.
#pragma once

#include <cstdint>
#include <string>

namespace ebbtide::plugin {

struct HostShare {
  // Processes that share their processors have the same name, others another: the host's, with the
  // processors that this one is bound to (taskset, a cpuset, numactl) if these are not all.
  std::string host;
  std::int32_t processors = 1;
};

// Of the calling thread, as threads inherit it. What cannot be asked is as if nothing were bound.
HostShare hostShare();

}  // namespace ebbtide::plugin
