// CudaStreamEvents: pooled events of one GPU, without timing.
//
// A stream is named by its handle, or by a tagged name (stream_names.hpp) where several pools of
// memory are kept for one stream. Nothing is recorded on a stream that is being captured into a
// graph: such an event belongs to the graph and never tells.
#pragma once

#include <mutex>
#include <vector>

#include "ebbtide/allocator/cuda/device.hpp"
#include "ebbtide/allocator/stream_events.hpp"

namespace ebbtide::allocator::cuda {

class CudaStreamEvents final : public StreamEvents {
 public:
  explicit CudaStreamEvents(const Device& device) : device_(device) {}
  ~CudaStreamEvents() override;

  Event record(Stream stream) noexcept override;
  bool isDone(Event event) noexcept override;
  void recycle(Event event) noexcept override;
  // Where the driver has no events of whole contexts (before CUDA 12.5) the wait has no bound.
  // False at once while a stream is captured: so no capture may be under way, or it ends with an
  // error.
  bool synchronize(std::chrono::nanoseconds most) noexcept override;

 private:
  CUevent take() noexcept;  // nullptr when the driver refuses
  void giveBack(CUevent event) noexcept;
  bool waitFor(CUevent event, std::chrono::nanoseconds most) noexcept;

  const Device device_;
  std::mutex mutex_;  // guards idle_
  std::vector<CUevent> idle_;
};

}  // namespace ebbtide::allocator::cuda
