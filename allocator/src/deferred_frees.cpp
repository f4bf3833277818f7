#include "deferred_frees.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace ebbtide::allocator {

void DeferredFrees::share(void* block, Stream stream) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    std::vector<Stream>& streams = shared_[block];
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
      streams.push_back(stream);
    }
  } catch (const std::bad_alloc&) {
    // Not with some of its streams only: without a note it is lost to reuse.
    shared_.erase(block);
    lost_note_ = true;
  }
}

DeferredFrees::Outcome DeferredFrees::defer(void* block) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = shared_.find(block);
  if (found == shared_.end()) return lost_note_ ? Outcome::kAwaiting : Outcome::kUnknown;
  Awaiting* entry = nullptr;
  try {
    Awaiting awaiting{block, deferred_ + 1, {}};
    awaiting.events.reserve(found->second.size());
    entry = &awaiting_.emplace_back(std::move(awaiting));
  } catch (const std::bad_alloc&) {
    // Its streams stay noted, so that nobody else gets it; it is lost to reuse.
    return Outcome::kAwaiting;
  }
  for (const Stream stream : found->second) {
    const StreamEvents::Event event = events_.record(stream);
    if (event != StreamEvents::Event::kDone) entry->events.push_back(event);
  }
  shared_.erase(found);
  if (entry->events.empty()) {
    awaiting_.pop_back();
    return Outcome::kFree;
  }
  ++deferred_;
  awaiting_count_.store(awaiting_.size(), std::memory_order_relaxed);
  return Outcome::kAwaiting;
}

bool DeferredFrees::isDone(Awaiting& awaiting) noexcept {
  std::vector<StreamEvents::Event>& events = awaiting.events;
  while (!events.empty()) {
    const StreamEvents::Event event = events.back();
    if (event == StreamEvents::Event::kNone || !events_.isDone(event)) return false;
    events_.recycle(event);
    events.pop_back();
  }
  return true;
}

bool DeferredFrees::popDone(void*& block, Look look) noexcept {
  if (!anyAwaiting()) return false;
  const std::lock_guard lock(mutex_);
  // A few from the oldest on, and the next time the next ones: a stream that hangs must not hide
  // the blocks of others.
  const std::size_t all = awaiting_.size();
  const std::size_t looks = look == Look::kAtAll ? all : std::min(all, kLooks);
  for (std::size_t i = 0; i < looks; ++i, ++next_look_) {
    if (next_look_ >= awaiting_.size()) next_look_ = 0;
    Awaiting& awaiting = awaiting_[next_look_];
    if (!isDone(awaiting)) continue;
    block = awaiting.block;
    std::swap(awaiting, awaiting_.front());
    awaiting_.pop_front();
    awaiting_count_.store(awaiting_.size(), std::memory_order_relaxed);
    return true;
  }
  return false;
}

std::uint64_t DeferredFrees::lastDeferred() noexcept {
  const std::lock_guard lock(mutex_);
  return deferred_;
}

void DeferredFrees::allDoneUpTo(std::uint64_t mark) noexcept {
  const std::lock_guard lock(mutex_);
  for (Awaiting& awaiting : awaiting_) {
    if (awaiting.number > mark) continue;
    for (const StreamEvents::Event event : awaiting.events) {
      if (event != StreamEvents::Event::kNone) events_.recycle(event);
    }
    awaiting.events.clear();
  }
}

}  // namespace ebbtide::allocator
