// CudaClock: DeviceClock of one GPU. A mark is an event on the thread's stream, with timing, of a
// pool; 0 where none can be had, as while the stream is captured into a graph.
#pragma once

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <mutex>
#include <vector>

#include "device/device_clock.hpp"

namespace ebbtide::plugin::cuda {

class CudaClock final : public DeviceClock {
 public:
  explicit CudaClock(c10::DeviceIndex device) : device_(device) {}
  ~CudaClock() override;

  Mark mark() override;
  // Waits for the second one. The device's idle time between is part of it: an op is launched by
  // the host. 0 where a mark could not be had.
  std::int64_t nanosecondsBetween(Mark begin, Mark end) override;
  void release(Mark mark) noexcept override;

 private:
  const c10::DeviceIndex device_;
  std::mutex mutex_;  // guards idle_
  std::vector<cudaEvent_t> idle_;
};

}  // namespace ebbtide::plugin::cuda
