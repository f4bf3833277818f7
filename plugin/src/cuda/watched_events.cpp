#include "cuda/watched_events.hpp"

#include <new>
#include <thread>

namespace ebbtide::plugin::cuda {

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

thread_local WatchedEvents::FreeScope* WatchedEvents::FreeScope::current = nullptr;

// What cannot be noted for want of host memory is never told of: the block counts as waiting.
allocator::StreamEvents::Event WatchedEvents::record(allocator::Stream stream) noexcept {
  bool foreign = false;
  Event event = recordForeign(stream, foreign);
  if (!foreign) event = events_->record(stream);
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
  StreamEvents& events = eventsOf(event);
  if (&events != events_.get()) {
    const std::lock_guard lock(mutex_);
    foreign_events_.erase(event);
  }
  events.recycle(event);
}

bool WatchedEvents::synchronize(std::chrono::nanoseconds most) noexcept {
  if (isCapturing()) return false;
  // What is freed during the wait may use the device after it.
  std::vector<const void*> untold;
  {
    const std::lock_guard lock(mutex_);
    untold.swap(untold_);
  }
  synchronizations_.fetch_add(1, std::memory_order_relaxed);
  const auto begin = Clock::now();
  const bool done = events_->synchronize(most) && foreignDone(most - (Clock::now() - begin));
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

// -----------------------------------------------------------------------------------------------
// other devices

allocator::Stream WatchedEvents::nameOfForeign(WatchedEvents& there, CUstream stream) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, foreign] : foreign_) {
    if (foreign.there == &there && foreign.alias->handle == stream) return name;
  }
  auto alias = std::make_unique<allocator::cuda::StreamAlias>(allocator::cuda::StreamAlias{stream});
  const allocator::Stream name = allocator::cuda::nameOf(*alias);
  foreign_.emplace(name, Foreign{&there, std::move(alias)});
  foreign_refused_.emplace(&there, false);
  any_foreign_.store(true, std::memory_order_release);
  return name;
}

allocator::StreamEvents& WatchedEvents::eventsOf(Event event) noexcept {
  if (!any_foreign_.load(std::memory_order_acquire)) return *events_;
  const std::lock_guard lock(mutex_);
  const auto found = foreign_events_.find(event);
  return found == foreign_events_.end() ? *events_ : *found->second->events_;
}

allocator::StreamEvents::Event WatchedEvents::recordForeign(allocator::Stream stream,
                                                            bool& foreign) noexcept {
  if (!any_foreign_.load(std::memory_order_acquire)) return Event::kNone;
  const std::lock_guard lock(mutex_);
  const auto found = foreign_.find(stream);
  if (found == foreign_.end()) return Event::kNone;
  foreign = true;
  WatchedEvents* const there = found->second.there;
  Event event = there->events_->record(allocator::cuda::nameOf(found->second.alias->handle));
  if (event == Event::kDone) return event;
  try {
    if (event != Event::kNone) foreign_events_[event] = there;
  } catch (const std::bad_alloc&) {
    there->events_->recycle(event);
    event = Event::kNone;
  }
  if (event == Event::kNone) foreign_refused_.find(there)->second = true;
  return event;
}

// What is recorded now, and all of the devices that refused an event. An event that is recycled
// meanwhile, and recorded again, only makes the wait longer.
bool WatchedEvents::foreignDone(std::chrono::nanoseconds most) noexcept {
  if (!any_foreign_.load(std::memory_order_acquire)) return true;
  const auto begin = Clock::now();
  std::vector<std::pair<Event, WatchedEvents*>> waits;
  std::vector<WatchedEvents*> devices;
  try {
    const std::lock_guard lock(mutex_);
    waits.assign(foreign_events_.begin(), foreign_events_.end());
    for (const auto& [there, refused] : foreign_refused_) {
      if (refused) devices.push_back(there);
    }
    for (WatchedEvents* const there : devices) foreign_refused_.find(there)->second = false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  bool done = true;
  for (const auto& [event, there] : waits) {
    while (done && !there->events_->isDone(event)) {
      done = Clock::now() - begin < most;
      std::this_thread::sleep_for(std::chrono::microseconds{100});
    }
  }
  for (WatchedEvents* const there : devices) {
    if (done) done = !there->isCapturing() && there->events_->synchronize(most);
  }
  if (done) return true;
  const std::lock_guard lock(mutex_);
  for (WatchedEvents* const there : devices) foreign_refused_.find(there)->second = true;
  return false;
}

}  // namespace ebbtide::plugin::cuda
