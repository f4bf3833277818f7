#include "cuda/foreign_pools.hpp"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstdio>

namespace ebbtide::plugin::cuda {
namespace {

constexpr std::size_t kUnit = 512;  // as PyTorch rounds, so that sizes meet again

bool captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const bool told = cudaStreamIsCapturing(stream, &status) == cudaSuccess;
  if (!told) (void)cudaGetLastError();
  return !told || status != cudaStreamCaptureStatusNone;
}

}  // namespace

void ForeignPools::add(const Id& id, Allocator allocator) {
  const std::lock_guard lock(mutex_);
  pools_[id] = std::move(allocator);
  any_.store(true, std::memory_order_release);
}

void ForeignPools::end(const Id& id) {
  std::map<void*, Block> idle;
  {
    const std::lock_guard lock(mutex_);
    if (pools_.erase(id) == 0) return;
    for (auto each = blocks_.begin(); each != blocks_.end();) {
      const auto next = std::next(each);
      if (each->second.pool == id && !each->second.live) idle.insert(blocks_.extract(each));
      each = next;
    }
  }
  giveBack(std::move(idle));
}

void* ForeignPools::allocate(const Id& id, std::size_t bytes, c10::DeviceIndex device,
                             cudaStream_t stream) {
  Block made;
  made.pool = id;
  made.bytes = (bytes + kUnit - 1) / kUnit * kUnit;
  made.requested_bytes = bytes;
  made.device = device;
  made.stream = stream;
  {
    const std::lock_guard lock(mutex_);
    const auto pool = pools_.find(id);
    if (pool == pools_.end()) return nullptr;
    made.allocator = pool->second;
    if (void* const at = takeIdle(lock, made)) return at;
  }
  const c10::cuda::CUDAGuard guard(device);
  void* at = askAllocator(made);
  if (at == nullptr) {  // idle blocks of other sizes may be in the way
    giveBack(idleOf(id));
    at = made.allocator->raw_alloc_with_stream(made.bytes, stream);
  }
  TORCH_CHECK_WITH(OutOfMemoryError, at != nullptr,
                   "CUDA out of memory. The memory pool's own allocator gave no ", made.bytes,
                   " bytes");
  const std::lock_guard lock(mutex_);
  blocks_[at] = std::move(made);
  return at;
}

void* ForeignPools::askAllocator(const Block& wanted) {
  try {
    return wanted.allocator->raw_alloc_with_stream(wanted.bytes, wanted.stream);
  } catch (const c10::OutOfMemoryError&) {
    return nullptr;
  }
}

void* ForeignPools::takeIdle(const Held& lock, const Block& wanted) {
  for (auto& [at, block] : blocks_) {
    const bool fits = block.pool == wanted.pool && block.bytes == wanted.bytes &&
                      block.stream == wanted.stream && block.device == wanted.device;
    if (!fits || !isFree(lock, block)) continue;
    block.live = true;
    block.requested_bytes = wanted.requested_bytes;
    block.readers.clear();
    return at;
  }
  return nullptr;
}

// Not those that replays of a graph may use.
std::map<void*, ForeignPools::Block> ForeignPools::idleOf(const Id& id) {
  std::map<void*, Block> idle;
  const std::lock_guard lock(mutex_);
  for (auto each = blocks_.begin(); each != blocks_.end();) {
    const auto next = std::next(each);
    const Block& block = each->second;
    if (block.pool == id && !block.live && !block.captured) idle.insert(blocks_.extract(each));
    each = next;
  }
  return idle;
}

// What reads a block on its own stream is in order with whoever has it next there.
bool ForeignPools::isFree(const Held& /*lock*/, Block& block) {
  if (block.live || block.captured) return false;
  // Else a query ends a capture of this thread, or of any.
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  for (const cudaEvent_t event : block.events) {
    const cudaError_t state = cudaEventQuery(event);
    if (state == cudaErrorNotReady) return false;
    if (state != cudaSuccess) {
      (void)cudaGetLastError();
      return false;
    }
  }
  for (const cudaEvent_t event : block.events) cudaEventDestroy(event);
  block.events.clear();
  return true;
}

bool ForeignPools::free(void* at) {
  if (!any()) return false;
  std::map<void*, Block> gone;
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(at);
    if (found == blocks_.end() || !found->second.live) return false;
    found->second.live = false;
    noteFree(lock, found->second);
    if (!pools_.contains(found->second.pool)) gone.insert(blocks_.extract(found));
  }
  giveBack(std::move(gone));
  return true;
}

// Where a reader cannot be waited for, the block is kept until the pool ends.
void ForeignPools::noteFree(const Held& /*lock*/, Block& block) {
  for (const auto& [device, reader] : block.readers) {
    const c10::cuda::CUDAGuard guard(device);
    cudaEvent_t event = nullptr;
    block.captured = block.captured || captured(reader) ||
                     cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess;
    if (!block.captured) {
      block.events.push_back(event);
      block.captured = cudaEventRecord(event, reader) != cudaSuccess;
    }
    if (!block.captured) continue;
    (void)cudaGetLastError();  // else the next launch's check finds it
    return;
  }
}

bool ForeignPools::recordStream(void* at, cudaStream_t stream, c10::DeviceIndex device) {
  if (!any()) return false;
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(at);
  if (found == blocks_.end()) return false;
  if (stream != found->second.stream) found->second.readers.insert({device, stream});
  return true;
}

std::size_t ForeignPools::blockBytes(const void* at) const {
  if (!any()) return 0;
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(const_cast<void*>(at));
  return found == blocks_.end() ? 0 : found->second.bytes;
}

std::vector<c10::CachingDeviceAllocator::SegmentInfo> ForeignPools::segments(const Id& id) const {
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> result;
  const std::lock_guard lock(mutex_);
  for (const auto& [at, block] : blocks_) {
    if (id != Id{0, 0} && block.pool != id) continue;
    auto& segment = result.emplace_back();
    segment.device = block.device;
    segment.address = reinterpret_cast<std::size_t>(at);
    segment.total_size = block.bytes;
    segment.stream = block.stream;
    segment.is_large = true;
    segment.owner_private_pool_id = block.pool;
    auto& inside = segment.blocks.emplace_back();
    inside.size = block.bytes;
    inside.requested_size = block.requested_bytes;
    inside.allocated = inside.active = block.live;
    if (!block.live) continue;
    segment.requested_size = block.requested_bytes;
    segment.allocated_size = segment.active_size = block.bytes;
  }
  return result;
}

// Waits for the streams that used them, not for the device: that might wait for other ranks. A pool
// ends in a destructor, from which nothing is thrown: what cannot be given back is lost to others.
void ForeignPools::giveBack(std::map<void*, Block> blocks) noexcept {
  for (auto& [at, block] : blocks) {
    try {
      const c10::cuda::CUDAGuard guard(block.device);
      const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
      for (const cudaEvent_t event : block.events) {
        (void)cudaEventSynchronize(event);
        (void)cudaEventDestroy(event);
      }
      // Replays of a graph run on any stream.
      if (block.captured) (void)cudaDeviceSynchronize();
      if (!captured(block.stream)) (void)cudaStreamSynchronize(block.stream);
      block.allocator->raw_delete(at);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "ebbtide: a memory pool's allocator: %s [EB83]\n", error.what());
    }
    (void)cudaGetLastError();
  }
}

}  // namespace ebbtide::plugin::cuda
