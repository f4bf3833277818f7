#include "ebbtide/allocator/cuda/stream_events.hpp"

#include <algorithm>
#include <new>
#include <thread>

#include "ebbtide/allocator/cuda/stream_names.hpp"

namespace ebbtide::allocator::cuda {
namespace {

StreamEvents::Event eventOf(CUevent event) noexcept {
  return StreamEvents::Event{reinterpret_cast<std::uintptr_t>(event)};
}

CUevent handleOf(StreamEvents::Event event) noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): as eventOf() made it
  return reinterpret_cast<CUevent>(static_cast<std::uintptr_t>(event));
}

bool isOfCapture(CUresult result) noexcept {
  return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
         result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

bool isReal(StreamEvents::Event event) noexcept {
  return event != StreamEvents::Event::kDone && event != StreamEvents::Event::kNone;
}

}  // namespace

CudaStreamEvents::~CudaStreamEvents() {
  const DriverScope scope(device_);
  for (const CUevent event : idle_) device_.driver->events.destroy(event);
}

CUevent CudaStreamEvents::take() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      const CUevent event = idle_.back();
      idle_.pop_back();
      return event;
    }
  }
  CUevent event = nullptr;
  if (device_.driver->events.create(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
    return nullptr;
  }
  return event;
}

void CudaStreamEvents::giveBack(CUevent event) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    idle_.push_back(event);
  } catch (const std::bad_alloc&) {
    const DriverScope scope(device_);
    device_.driver->events.destroy(event);
  }
}

StreamEvents::Event CudaStreamEvents::record(Stream stream) noexcept {
  const DriverScope scope(device_);
  const CUstream handle = cuda::handleOf(stream);
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  if (device_.driver->events.streamIsCapturing(handle, &capture) != CUDA_SUCCESS ||
      capture != CU_STREAM_CAPTURE_STATUS_NONE) {
    return Event::kNone;
  }
  const CUevent event = take();
  if (event == nullptr) return Event::kNone;
  if (device_.driver->events.record(event, handle) != CUDA_SUCCESS) {
    giveBack(event);
    return Event::kNone;
  }
  return eventOf(event);
}

bool CudaStreamEvents::isDone(Event event) noexcept {
  if (event == Event::kDone) return true;
  if (event == Event::kNone) return false;
  const DriverScope scope(device_);
  return device_.driver->events.query(handleOf(event)) == CUDA_SUCCESS;
}

void CudaStreamEvents::recycle(Event event) noexcept {
  if (isReal(event)) giveBack(handleOf(event));
}

bool CudaStreamEvents::synchronize(std::chrono::nanoseconds most) noexcept {
  const DriverScope scope(device_);
  const CUevent event = device_.driver->contexts.recordEvent == nullptr ? nullptr : take();
  CUresult recorded = CUDA_ERROR_NOT_SUPPORTED;
  if (event != nullptr) recorded = device_.driver->contexts.recordEvent(device_.context, event);
  bool done = false;
  if (recorded == CUDA_SUCCESS) {
    done = waitFor(event, most);
  } else if (!isOfCapture(recorded)) {
    done = device_.driver->contexts.synchronize() == CUDA_SUCCESS;
  }
  if (event != nullptr) giveBack(event);
  return done;
}

bool CudaStreamEvents::waitFor(CUevent event, std::chrono::nanoseconds most) noexcept {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::chrono::microseconds pause{1};
  CUresult state = device_.driver->events.query(event);
  while (state == CUDA_ERROR_NOT_READY && Clock::now() - begin < most) {
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds{200});
    state = device_.driver->events.query(event);
  }
  return state == CUDA_SUCCESS;
}

}  // namespace ebbtide::allocator::cuda
