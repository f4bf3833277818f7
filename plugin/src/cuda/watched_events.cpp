#include "watched_events.hpp"

#include <new>

namespace ebbtide::plugin::cuda {

thread_local WatchedEvents::FreeScope* WatchedEvents::FreeScope::current = nullptr;

// What cannot be noted for want of host memory is never told of: the block counts as waiting.
allocator::StreamEvents::Event WatchedEvents::record(allocator::Stream stream) noexcept {
  const Event event = events_->record(stream);
  FreeScope* const scope = FreeScope::current;
  if (event == Event::kDone || scope == nullptr) return event;
  scope->recorded_ = true;
  try {
    const std::lock_guard lock(mutex_);
    ++left_[scope->block_];
    if (event == Event::kNone) {
      untold_.push_back(scope->block_);
    } else {
      waits_[event] = scope->block_;
    }
  } catch (const std::bad_alloc&) {
  }
  return event;
}

void WatchedEvents::oneDone(const void* block, std::vector<const void*>& reusable) noexcept {
  const auto left = left_.find(block);
  if (left == left_.end() || --left->second > 0) return;
  left_.erase(left);
  try {
    reusable.push_back(block);
  } catch (const std::bad_alloc&) {
  }
}

void WatchedEvents::recycle(Event event) noexcept {
  std::vector<const void*> reusable;
  if (event != Event::kDone && event != Event::kNone) {
    const std::lock_guard lock(mutex_);
    if (const auto found = waits_.find(event); found != waits_.end()) {
      const void* const block = found->second;
      waits_.erase(found);
      oneDone(block, reusable);
    }
  }
  for (const void* block : reusable) watcher_.onReusable(block);
  events_->recycle(event);
}

bool WatchedEvents::synchronize(std::chrono::nanoseconds most) noexcept {
  if (captures_.load(std::memory_order_acquire) > 0) return false;
  // What is freed during the wait may use the device after it.
  std::vector<const void*> untold;
  {
    const std::lock_guard lock(mutex_);
    untold.swap(untold_);
  }
  synchronizations_.fetch_add(1, std::memory_order_relaxed);
  const bool done = events_->synchronize(most);
  std::vector<const void*> reusable;
  {
    const std::lock_guard lock(mutex_);
    if (done) {
      for (const void* block : untold) oneDone(block, reusable);
    } else {
      try {
        untold_.insert(untold_.end(), untold.begin(), untold.end());
      } catch (const std::bad_alloc&) {
      }
    }
  }
  for (const void* block : reusable) watcher_.onReusable(block);
  return done;
}

}  // namespace ebbtide::plugin::cuda
