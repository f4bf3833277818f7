#include "cuda/cuda_clock.hpp"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "cuda/cuda_result.hpp"

namespace ebbtide::plugin::cuda {
namespace {

cudaEvent_t eventOf(DeviceClock::Mark mark) noexcept {
  return reinterpret_cast<cudaEvent_t>(static_cast<std::intptr_t>(mark));
}

DeviceClock::Mark markOf(cudaEvent_t event) noexcept {
  return static_cast<DeviceClock::Mark>(reinterpret_cast<std::intptr_t>(event));
}

}  // namespace

CudaClock::~CudaClock() {
  for (const cudaEvent_t event : idle_) C10_CUDA_CHECK_WARN(cudaEventDestroy(event));
}

DeviceClock::Mark CudaClock::mark() {
  const c10::cuda::CUDAGuard guard(device_);
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device_).stream();
  if (isCaptured(stream)) return 0;
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  cudaEvent_t event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      event = idle_.back();
      idle_.pop_back();
    }
  }
  if (event == nullptr && !succeeded(cudaEventCreate(&event))) return 0;
  if (!succeeded(cudaEventRecord(event, stream))) {
    release(markOf(event));
    return 0;
  }
  return markOf(event);
}

std::int64_t CudaClock::nanosecondsBetween(Mark begin, Mark end) {
  float milliseconds = 0;
  if (begin == 0 || end == 0) return 0;
  const c10::cuda::CUDAGuard guard(device_);
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  if (!succeeded(cudaEventSynchronize(eventOf(end)))) return 0;
  if (!succeeded(cudaEventElapsedTime(&milliseconds, eventOf(begin), eventOf(end)))) return 0;
  return static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6);
}

void CudaClock::release(Mark mark) noexcept {
  if (mark == 0) return;
  try {
    const std::lock_guard lock(mutex_);
    idle_.push_back(eventOf(mark));
  } catch (...) {  // it is lost until the process ends
  }
}

}  // namespace ebbtide::plugin::cuda
