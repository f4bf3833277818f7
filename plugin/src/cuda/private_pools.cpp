#include "cuda/private_pools.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <new>

namespace ebbtide::plugin::cuda {

using allocator::Stream;
using allocator::cuda::nameOf;
using allocator::cuda::StreamAlias;

void PrivatePools::createOrIncrement(const Id& id) {
  const std::lock_guard lock(mutex_);
  use(pools_[id]);
}

void PrivatePools::use(Pool& pool) {
  if (pool.uses++ > 0) return;
  for (const auto& [stream, alias] : pool.names) keep_(nameOf(*alias), true);
}

// Here, since a capture that begins now cannot wait. The wait calls onFreed().
void PrivatePools::takeBackNames() {
  Names left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(left_names_);
  }
  if (left.empty()) return;
  const bool idle = device_is_idle_();
  const std::lock_guard lock(mutex_);
  (idle ? idle_names_ : left_names_).merge(left);
}

void PrivatePools::begin(const Id& id, Filter filter) {
  takeBackNames();
  const std::lock_guard lock(mutex_);
  const bool recorded = std::any_of(recorded_.begin(), recorded_.end(),
                                    [&id](const auto& entry) { return entry.first == id; });
  TORCH_CHECK(!recorded, "beginAllocateToPool: already recording to mempool_id");
  recorded_.emplace_back(id, std::move(filter));
  recorded_count_.store(static_cast<int>(recorded_.size()), std::memory_order_release);
  use(pools_[id]);
}

void PrivatePools::end(const Id& id) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(recorded_.begin(), recorded_.end(),
                                  [&id](const auto& entry) { return entry.first == id; });
  TORCH_CHECK(found != recorded_.end(), "endAllocatePool: not currently recording to mempool_id");
  recorded_.erase(found);
  recorded_count_.store(static_cast<int>(recorded_.size()), std::memory_order_release);
}

void PrivatePools::release(const Id& id) {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(id);
  TORCH_CHECK(found != pools_.end() && found->second.uses > 0, "releasePool: no such pool");
  if (--found->second.uses > 0) return;
  for (const auto& [stream, alias] : found->second.names) keep_(nameOf(*alias), false);
  forgetIfUnused(id);
}

int PrivatePools::uses(const Id& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(id);
  TORCH_CHECK(found != pools_.end(), "getPoolUseCount: no such pool");
  return found->second.uses;
}

bool PrivatePools::isUsed(const Id& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(id);
  return found != pools_.end() && found->second.uses > 0;
}

PrivatePools::Id PrivatePools::taker(cudaStream_t stream) const {
  if (recorded_count_.load(std::memory_order_acquire) == 0) return {0, 0};
  const std::lock_guard lock(mutex_);
  for (const auto& [id, filter] : recorded_) {
    if (filter(stream)) return id;
  }
  return {0, 0};
}

PrivatePools::Place PrivatePools::place(cudaStream_t stream) {
  if (recorded_count_.load(std::memory_order_acquire) == 0) return {.name = nameOf(stream)};
  const std::lock_guard lock(mutex_);
  for (const auto& [id, filter] : recorded_) {
    if (!filter(stream)) continue;
    Pool& pool = pools_[id];
    const Stream name = nameIn(pool, stream);
    ++pool.live;
    return {.name = name, .pool = id};
  }
  return {.name = nameOf(stream)};
}

Stream PrivatePools::nameIn(Pool& pool, cudaStream_t stream) {
  std::unique_ptr<StreamAlias>& alias = pool.names[stream];
  if (alias == nullptr) {
    if (const auto idle = idle_names_.find(stream); idle != idle_names_.end()) {
      alias = std::move(idle->second);
      idle_names_.erase(idle);
    } else {
      alias = std::make_unique<StreamAlias>(StreamAlias{stream});
    }
    keep_(nameOf(*alias), true);
  }
  return nameOf(*alias);
}

void PrivatePools::onFreed(const Id& id) noexcept {
  if (id == Id{0, 0}) return;
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(id);
  if (found == pools_.end()) return;
  --found->second.live;
  try {
    forgetIfUnused(id);
  } catch (const std::bad_alloc&) {
    // Then its names serve nobody any more.
  }
}

void PrivatePools::forgetIfUnused(const Id& id) {
  const auto found = pools_.find(id);
  if (found->second.uses > 0 || found->second.live > 0) return;
  for (auto& [stream, alias] : found->second.names) {
    left_names_.emplace(stream, std::move(alias));
  }
  pools_.erase(found);
}

}  // namespace ebbtide::plugin::cuda
