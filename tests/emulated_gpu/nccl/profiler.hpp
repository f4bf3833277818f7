// The profiler plugin that NCCL_PROFILER_PLUGIN names, loaded and called as NCCL does (interface
// 5).
#pragma once

#include <cstdint>

#include "nccl/profiler_interface.hpp"

namespace emulated_nccl {

struct Operation;

// One communicator's. Does nothing where no plugin was loaded.
class Profiler {
 public:
  void begin(std::uint64_t communicator, int ranks, int rank);
  void end();

  // On the host: before the launch of the kernel, and after it. Null: not watched.
  void* start(const Operation& operation) const;
  void launched(void* event) const;
  // The kernel's one channel, by the device's clock.
  void* entered(void* event, double nanoseconds) const;
  void left(void* channel, double nanoseconds) const;

 private:
  void* context_ = nullptr;
  int rank_ = 0;
};

}  // namespace emulated_nccl
