// What the runtime answers where no error is to be thrown.
#pragma once

#include <cuda_runtime_api.h>

namespace ebbtide::plugin::cuda {

// A failure is taken from the runtime, too: torch would find it after its next kernel.
inline bool succeeded(cudaError_t result) noexcept {
  if (result == cudaSuccess) return true;
  static_cast<void>(cudaGetLastError());
  return false;
}

// Or nobody knows. Then the stream's work is only written down.
inline bool isCaptured(cudaStream_t stream) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return !succeeded(cudaStreamIsCapturing(stream, &status)) ||
         status != cudaStreamCaptureStatusNone;
}

}  // namespace ebbtide::plugin::cuda
