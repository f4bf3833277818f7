// PinnedSpills: SpillTarget of one GPU, in pinned memory of the host.
//
//   the writer's stream (the step's) ─event─► copy on the side stream ─event─► slot is whole
//   slot is whole ─► the reader's stream: copy back ─event─► the buffer may be written again
//
// A copy of what nobody else has goes on while the device computes; the block is recorded on the
// side stream, so that the allocator gives it to nobody before. Where somebody may write the block
// next, write() waits for the copy. Pinned memory is kept for later slots, beside every budget, up
// to the rank's share of the host's: then write() refuses.
#pragma once

#include <c10/core/Device.h>
#include <c10/cuda/CUDAStream.h>

#include <limits>
#include <map>
#include <mutex>

#include "base/rate_meter.hpp"
#include "cuda/device_heap.hpp"
#include "device/spill_target.hpp"

namespace ebbtide::plugin::cuda {

class PinnedSpills final : public SpillTarget {
 public:
  // The heap outlives it.
  PinnedSpills(c10::DeviceIndex device, DeviceHeap& heap,
               std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max());
  ~PinnedSpills() override;

  std::optional<Slot> write(const void* data, std::int64_t bytes,
                            Afterwards afterwards) noexcept override;
  bool read(const Slot& slot, void* data) noexcept override;
  bool equals(const Slot& slot, const void* data) const noexcept override;
  void release(const Slot& slot) noexcept override;
  // Of the copies that are done; back at the same rate. 0 before the first.
  std::int64_t roundTripBytesPerSecond() noexcept override;

 private:
  struct Buffer {
    char* begin = nullptr;
    cudaEvent_t begun = nullptr;  // its bytes begin to arrive
    cudaEvent_t whole = nullptr;  // they have arrived
    cudaEvent_t read = nullptr;   // they have been read, when `was_read`
    bool was_read = false;
    std::int64_t untimed_bytes = 0;  // of the copy to it, until it has been timed
  };

  void checkMayWrite() const;            // throws c10::Error
  Buffer take(std::int64_t room_bytes);  // throws c10::Error
  void copyOut(const Buffer& buffer, const void* data, std::int64_t bytes, Afterwards afterwards);
  void timeCopies();
  static void end(const Buffer& buffer) noexcept;
  void makeRoom(std::int64_t room_bytes);
  void giveBack(std::int64_t room_bytes, const Buffer& buffer) noexcept;

  const c10::DeviceIndex device_;
  DeviceHeap& heap_;
  const c10::cuda::CUDAStream side_;
  const std::int64_t most_bytes_;

  mutable std::mutex mutex_;  // guards what follows; held while copies are begun, in their order
  RateMeter writing_{1.0, std::int64_t{512} << 20};
  std::int64_t last_slot_ = 0;
  std::int64_t pinned_bytes_ = 0;  // of all buffers
  std::map<std::int64_t, Buffer> slots_;
  std::multimap<std::int64_t, Buffer> free_;  // by room
};

}  // namespace ebbtide::plugin::cuda
