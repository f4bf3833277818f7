// What each function of the two interfaces begins and ends with.
#pragma once

#include "device.hpp"
#include "host_time.hpp"

#define API extern "C" __attribute__((visibility("default")))
#define DRIVER API CUresult CUDAAPI
#define RUNTIME API cudaError_t CUDARTAPI

namespace emulated_gpu {

// The processor time of its holder is not the program's.
class Lock {
 public:
  explicit Lock(DeviceLock& lock) : held_(lock) {}

 private:
  InEmulator in_emulator_;
  std::lock_guard<DeviceLock> held_;
};

inline cudaError_t& lastError() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

// A runtime call's answer: noted for cudaGetLastError, and a sticky error in place of any other.
inline cudaError_t answer(cudaError_t error) {
  if (const CUresult sticky = stickyError()) error = static_cast<cudaError_t>(sticky);
  if (error != cudaSuccess && error != cudaErrorNotReady) lastError() = error;
  return error;
}
// The two enumerations share their values.
inline cudaError_t answer(CUresult result) {
  return answer(static_cast<cudaError_t>(result));
}

// A driver call's answer.
inline CUresult driverAnswer(CUresult result) {
  const CUresult sticky = stickyError();
  return sticky == CUDA_SUCCESS ? result : sticky;
}

int attributeOf(int which);  // of each device: enumerations of the driver and of the runtime agree

}  // namespace emulated_gpu
