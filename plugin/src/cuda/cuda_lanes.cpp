#include "cuda/cuda_lanes.hpp"

#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "cuda/cuda_result.hpp"

namespace ebbtide::plugin::cuda {
namespace {

// What is asked for on `second` from now on comes after all that `first` has been asked for.
bool order(cudaStream_t first, cudaStream_t second) noexcept {
  cudaEvent_t event = nullptr;
  if (!succeeded(cudaEventCreateWithFlags(&event, cudaEventDisableTiming))) {
    return succeeded(cudaStreamSynchronize(first));
  }
  const bool ordered =
      succeeded(cudaEventRecord(event, first)) && succeeded(cudaStreamWaitEvent(second, event, 0));
  static_cast<void>(succeeded(cudaEventDestroy(event)));  // once it is done
  return ordered || succeeded(cudaStreamSynchronize(first));
}

}  // namespace

DeviceLanes::Lane CudaLanes::now() const noexcept {
  return c10::cuda::getCurrentCUDAStream(device_).id();
}

DeviceLanes::Capture CudaLanes::capture() const noexcept try {
  const c10::cuda::CUDAGuard guard(device_);  // the default stream's handle is each device's
  if (isCaptured(c10::cuda::getCurrentCUDAStream(device_).stream())) return Capture::kHere;
  return heap_.capturing() ? Capture::kElsewhere : Capture::kNone;
} catch (...) {
  return Capture::kHere;
}

// An event of a captured stream would draw the other one into the graph.
bool CudaLanes::switchTo(Lane lane) const noexcept try {
  const c10::cuda::CUDAGuard guard(device_);
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  const c10::cuda::CUDAStream from = c10::cuda::getCurrentCUDAStream(device_);
  const auto to = c10::cuda::CUDAStream::unpack3(lane, device_, c10::kCUDA);
  const bool ordered =
      !isCaptured(from.stream()) && !isCaptured(to.stream()) && order(from.stream(), to.stream());
  c10::cuda::setCurrentCUDAStream(to);
  return ordered;
} catch (...) {
  return false;
}

void CudaLanes::readHere(const c10::Storage& storage) const {
  heap_.recordStream(const_cast<void*>(storage.data()),
                     c10::cuda::getCurrentCUDAStream(device_).stream(), heap_);
}

}  // namespace ebbtide::plugin::cuda
