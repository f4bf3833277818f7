#include "ebbtide/allocator/recording_resource.hpp"

#include <new>
#include <utility>

#include "this_thread.hpp"

namespace ebbtide::allocator {
namespace {

// Two steps have fewer, of 100,000 blocks each, say; 16 bytes a block. What runs between steps, an
// evaluation say, is noted too.
constexpr std::size_t kMostBlocks = std::size_t{1} << 18;

}  // namespace

void RecordingResource::start(Bytes least_bytes) noexcept {
  const Held held(mutex_);
  thread_ = thisThread();
  least_bytes_ = least_bytes;
  log_ = {};
  open_.clear();
  recording_.store(true, std::memory_order_relaxed);
}

void RecordingResource::mark() noexcept {
  const Held held(mutex_);
  if (!recording_.load(std::memory_order_relaxed) || thread_ != thisThread()) return;
  try {
    log_.marks.push_back(static_cast<std::int64_t>(log_.blocks.size()));
  } catch (const std::bad_alloc&) {
    giveUp(held);
  }
}

void RecordingResource::unmark() noexcept {
  const Held held(mutex_);
  if (!recording_.load(std::memory_order_relaxed) || thread_ != thisThread()) return;
  if (!log_.marks.empty()) log_.marks.pop_back();
}

RequestLog RecordingResource::stop() noexcept {
  const Held held(mutex_);
  recording_.store(false, std::memory_order_relaxed);
  open_.clear();
  return std::exchange(log_, {});
}

void* RecordingResource::allocate(std::size_t bytes, Stream stream) noexcept {
  void* block = upstream_.allocate(bytes, stream);
  if (recording_.load(std::memory_order_relaxed) && block != nullptr) noteAllocate(block);
  return block;
}

void RecordingResource::deallocate(void* block) noexcept {
  // Before the block can be reused.
  if (recording_.load(std::memory_order_relaxed)) noteFree(block);
  upstream_.deallocate(block);
}

void RecordingResource::noteAllocate(const void* block) noexcept {
  const Bytes bytes = upstream_.blockBytes(block);
  const Held held(mutex_);
  if (!records() || thisThread() != thread_ || bytes < least_bytes_) return;
  if (log_.blocks.size() == kMostBlocks) return giveUp(held);
  try {
    open_.insert_or_assign(block, log_.blocks.size());
    log_.blocks.push_back({bytes});
  } catch (const std::bad_alloc&) {
    giveUp(held);
  }
}

void RecordingResource::noteFree(const void* block) noexcept {
  const Held held(mutex_);
  const auto found = open_.find(block);
  if (found == open_.end()) return;
  log_.blocks[found->second].death = static_cast<std::int64_t>(log_.blocks.size());
  open_.erase(found);
}

void RecordingResource::giveUp(const Held&) noexcept {
  recording_.store(false, std::memory_order_relaxed);
  log_ = {};
  open_.clear();
}

}  // namespace ebbtide::allocator
