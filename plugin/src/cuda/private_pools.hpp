// PrivatePools: torch's private memory pools of one device, and what is captured into graphs.
//
//   begin ─► requests that its filter takes get the pool's names ─► end
//   create / begin: a use more     release: one less; at none the pool's memory is anybody's again
//
// A captured graph writes to its memory at each replay, blocks or not. So a pool has streams'
// further names, under which nobody else allocates, and whose free pages stay mapped while it is in
// use. A name serves another pool later, of the same stream, when the device has been idle since: a
// graph may have been replayed on any stream, and torch lets go of its pool meanwhile.
//
// Thread rule: any thread; a mutex of its own.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ebbtide/allocator/cuda/stream_names.hpp"

namespace ebbtide::plugin::cuda {

class PrivatePools {
 public:
  using Id = c10::MempoolId_t;
  using Filter = std::function<bool(cudaStream_t)>;
  // Keep free pages of this name mapped, or do so no more.
  using Keep = std::function<void(allocator::Stream, bool)>;
  // Waits for the device; false where it does not finish, or may not be waited for.
  using DeviceIsIdle = std::function<bool()>;

  PrivatePools(Keep keep, DeviceIsIdle deviceIsIdle)
      : keep_(std::move(keep)), device_is_idle_(std::move(deviceIsIdle)) {}

  void createOrIncrement(const Id& id);
  // Throws c10::Error where the pool is recorded to already.
  void begin(const Id& id, Filter filter);
  void end(const Id& id);  // throws where it is not
  void release(const Id& id);
  int uses(const Id& id) const;  // throws for a pool that is not there
  bool isUsed(const Id& id) const;
  // The pool that takes a request on this stream now; {0, 0} for none. Filters are called.
  Id taker(cudaStream_t stream) const;

  struct Place {
    allocator::Stream name;
    Id pool = {0, 0};
  };
  // Where a request on this stream goes; counts it as live there. Filters are called.
  Place place(cudaStream_t stream);
  void onFreed(const Id& id) noexcept;

 private:
  struct Pool {
    int uses = 0;
    std::int64_t live = 0;  // blocks, awaiting ones too
    std::map<cudaStream_t, std::unique_ptr<allocator::cuda::StreamAlias>> names;
  };

  using Names = std::multimap<cudaStream_t, std::unique_ptr<allocator::cuda::StreamAlias>>;

  void takeBackNames();
  void use(Pool& pool);  // once more
  allocator::Stream nameIn(Pool& pool, cudaStream_t stream);
  void forgetIfUnused(const Id& id);

  const Keep keep_;
  const DeviceIsIdle device_is_idle_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<Id, Pool> pools_;
  std::vector<std::pair<Id, Filter>> recorded_;
  std::atomic<int> recorded_count_{0};
  Names left_names_;  // of pools that are gone; replays of their graphs may be under way
  Names idle_names_;  // none is
};

}  // namespace ebbtide::plugin::cuda
