#include "cuda/pinned_spills.hpp"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "cuda/cuda_result.hpp"
#include "device/spill_sizes.hpp"

namespace ebbtide::plugin::cuda {
namespace {

constexpr std::int64_t kChunkBytes = 8 << 20;

void checkNotCapturing(cudaStream_t stream) {
  TORCH_CHECK(!isCaptured(stream), "values cannot be moved while a CUDA graph is captured");
}

void destroy(cudaEvent_t event) {
  if (event != nullptr) C10_CUDA_CHECK_WARN(cudaEventDestroy(event));
}

}  // namespace

PinnedSpills::PinnedSpills(c10::DeviceIndex device, DeviceHeap& heap, std::int64_t most_bytes)
    : device_(device),
      heap_(heap),
      side_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)),
      most_bytes_(most_bytes) {}

PinnedSpills::~PinnedSpills() {
  C10_CUDA_CHECK_WARN(cudaStreamSynchronize(side_.stream()));
  for (const auto& [id, buffer] : slots_) end(buffer);
  for (const auto& [room, buffer] : free_) end(buffer);
}

// Nothing may be on its way to it or from it.
void PinnedSpills::end(const Buffer& buffer) noexcept {
  for (const cudaEvent_t event : {buffer.begun, buffer.whole, buffer.read}) destroy(event);
  C10_CUDA_CHECK_WARN(cudaFreeHost(buffer.begin));
}

// Of buffers of other sizes that are not in use.
void PinnedSpills::makeRoom(std::int64_t room_bytes) {
  while (pinned_bytes_ > most_bytes_ - room_bytes && !free_.empty()) {
    const auto last = std::prev(free_.end());
    C10_CUDA_CHECK(cudaEventSynchronize(last->second.whole));
    if (last->second.was_read) C10_CUDA_CHECK(cudaEventSynchronize(last->second.read));
    end(last->second);
    pinned_bytes_ -= last->first;
    free_.erase(last);
  }
  TORCH_CHECK(pinned_bytes_ <= most_bytes_ - room_bytes, "this rank's share of the host's memory, ",
              most_bytes_, " bytes, is full");
}

PinnedSpills::Buffer PinnedSpills::take(std::int64_t room_bytes) {
  if (const auto found = free_.find(room_bytes); found != free_.end()) {
    const Buffer buffer = found->second;
    free_.erase(found);
    return buffer;
  }
  makeRoom(room_bytes);
  Buffer made;
  try {
    C10_CUDA_CHECK(cudaEventCreate(&made.begun));
    C10_CUDA_CHECK(cudaEventCreate(&made.whole));
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&made.read, cudaEventDisableTiming));
    C10_CUDA_CHECK(cudaHostAlloc(reinterpret_cast<void**>(&made.begin),
                                 static_cast<std::size_t>(room_bytes), cudaHostAllocDefault));
  } catch (...) {
    for (const cudaEvent_t event : {made.begun, made.whole, made.read}) destroy(event);
    throw;
  }
  pinned_bytes_ += room_bytes;
  return made;
}

void PinnedSpills::giveBack(std::int64_t room_bytes, const Buffer& buffer) noexcept {
  try {
    free_.emplace(room_bytes, buffer);
  } catch (...) {  // lost until the process ends; nothing else depends on it
  }
}

// The allocator is told of the copy, and has to wait for it.
void PinnedSpills::checkMayWrite() const {
  checkNotCapturing(c10::cuda::getCurrentCUDAStream(device_).stream());
  TORCH_CHECK(!heap_.capturing(), "values cannot be moved while a CUDA graph is captured");
}

void PinnedSpills::copyOut(const Buffer& buffer, const void* data, std::int64_t bytes,
                           Afterwards afterwards) {
  const cudaStream_t now = c10::cuda::getCurrentCUDAStream(device_).stream();
  const cudaStream_t side = side_.stream();
  C10_CUDA_CHECK(cudaEventRecord(buffer.whole, now));  // for a moment
  C10_CUDA_CHECK(cudaStreamWaitEvent(side, buffer.whole, 0));
  if (buffer.was_read) C10_CUDA_CHECK(cudaStreamWaitEvent(side, buffer.read, 0));
  C10_CUDA_CHECK(cudaEventRecord(buffer.begun, side));
  C10_CUDA_CHECK(cudaMemcpyAsync(buffer.begin, data, static_cast<std::size_t>(bytes),
                                 cudaMemcpyDeviceToHost, side));
  C10_CUDA_CHECK(cudaEventRecord(buffer.whole, side));
  if (afterwards == Afterwards::kFreed) {
    heap_.recordStream(const_cast<void*>(data), side, heap_);
    return;
  }
  C10_CUDA_CHECK(cudaEventSynchronize(buffer.whole));
}

std::optional<SpillTarget::Slot> PinnedSpills::write(const void* data, std::int64_t bytes,
                                                     Afterwards afterwards) noexcept try {
  const std::lock_guard lock(mutex_);
  const c10::cuda::CUDAGuard guard(device_);
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  checkMayWrite();
  const Slot slot{last_slot_ + 1, bytes, spillRoomBytes(bytes)};
  const Buffer buffer = take(slot.room_bytes);
  try {
    copyOut(buffer, data, bytes, afterwards);
    slots_.emplace(slot.offset,
                   Buffer{buffer.begin, buffer.begun, buffer.whole, buffer.read, false, bytes});
  } catch (...) {
    // What has begun must not write a buffer that somebody else has.
    if (cudaStreamSynchronize(side_.stream()) == cudaSuccess) giveBack(slot.room_bytes, buffer);
    throw;
  }
  ++last_slot_;
  return slot;
} catch (const std::exception& error) {
  setError(std::string("cannot write to pinned memory: ") + error.what());
  return std::nullopt;
}

bool PinnedSpills::read(const Slot& slot, void* data) noexcept try {
  const std::lock_guard lock(mutex_);
  const c10::cuda::CUDAGuard guard(device_);
  const cudaStream_t now = c10::cuda::getCurrentCUDAStream(device_).stream();
  checkNotCapturing(now);
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  Buffer& buffer = slots_.at(slot.offset);
  C10_CUDA_CHECK(cudaStreamWaitEvent(now, buffer.whole, 0));
  // Readers on several streams: the buffer waits for each through the one after.
  if (buffer.was_read) C10_CUDA_CHECK(cudaStreamWaitEvent(now, buffer.read, 0));
  C10_CUDA_CHECK(cudaMemcpyAsync(data, buffer.begin, static_cast<std::size_t>(slot.bytes),
                                 cudaMemcpyHostToDevice, now));
  C10_CUDA_CHECK(cudaEventRecord(buffer.read, now));
  buffer.was_read = true;
  return true;
} catch (const std::exception& error) {
  setError(std::string("cannot read pinned memory: ") + error.what());
  return false;
}

bool PinnedSpills::equals(const Slot& slot, const void* data) const noexcept try {
  const std::lock_guard lock(mutex_);
  const c10::cuda::CUDAGuard guard(device_);
  const cudaStream_t now = c10::cuda::getCurrentCUDAStream(device_).stream();
  checkNotCapturing(now);
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  const Buffer& buffer = slots_.at(slot.offset);
  C10_CUDA_CHECK(cudaEventSynchronize(buffer.whole));
  std::vector<char> part(static_cast<std::size_t>(std::min(slot.bytes, kChunkBytes)));
  for (std::int64_t at = 0; at < slot.bytes; at += kChunkBytes) {
    const auto count = static_cast<std::size_t>(std::min(kChunkBytes, slot.bytes - at));
    C10_CUDA_CHECK(cudaMemcpyAsync(part.data(), static_cast<const char*>(data) + at, count,
                                   cudaMemcpyDeviceToHost, now));
    C10_CUDA_CHECK(cudaStreamSynchronize(now));
    if (std::memcmp(part.data(), buffer.begin + at, count) != 0) return false;
  }
  return true;
} catch (...) {
  return false;
}

void PinnedSpills::release(const Slot& slot) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(slot.offset);
  if (found == slots_.end()) return;
  giveBack(slot.room_bytes, found->second);
  slots_.erase(found);
}

// Times the copies that are done. It looks at free buffers too: all may be free when a step ends.
void PinnedSpills::timeCopies() {
  const c10::cuda::CUDAGuard guard(device_);
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  const auto time = [this](Buffer& buffer) {
    float milliseconds = 0;
    if (buffer.untimed_bytes < kLeastTimedBytes || !succeeded(cudaEventQuery(buffer.whole))) return;
    const std::int64_t bytes = std::exchange(buffer.untimed_bytes, 0);
    if (!succeeded(cudaEventElapsedTime(&milliseconds, buffer.begun, buffer.whole))) return;
    writing_.add(bytes, static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6));
  };
  for (auto& [id, buffer] : slots_) time(buffer);
  for (auto& [room, buffer] : free_) time(buffer);
}

std::int64_t PinnedSpills::roundTripBytesPerSecond() noexcept try {
  const std::lock_guard lock(mutex_);
  timeCopies();
  if (writing_.measuredBytes() < kLeastTimedBytes) return 0;
  constexpr std::int64_t kGib = std::int64_t{1} << 30;
  const double ns = 2 * writing_.nanosecondsFor(kGib);
  return static_cast<std::int64_t>(static_cast<double>(kGib) * 1e9 / std::max(ns, 1.0));
} catch (...) {
  return 0;
}

}  // namespace ebbtide::plugin::cuda
