#include "event_log.hpp"

namespace ebbtide::plugin {
namespace {
thread_local int ours_depth = 0;
}

using Kind = scheduler::TraceEvent::Kind;

EventLog::OursScope::OursScope() {
  ++ours_depth;
}
EventLog::OursScope::~OursScope() {
  --ours_depth;
}

EventLog::EventLog(std::int64_t base_bytes) : base_bytes_(base_bytes) {}

scheduler::Nanoseconds EventLog::now() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                              start_)
      .count();
}

void EventLog::onAllocate(const void* block, allocator::Bytes block_bytes) noexcept {
  std::lock_guard lock(mutex_);
  if (events_.size() >= most_events_) {
    open_.erase(block);
    return;
  }
  const auto id = static_cast<scheduler::BlockId>(blocks_.size());
  blocks_.push_back({block_bytes, false, ours_depth > 0});
  open_[block] = id;
  events_.push_back({Kind::kAlloc, id, now()});
}

void EventLog::onFree(const void* block, allocator::Bytes block_bytes) noexcept {
  std::lock_guard lock(mutex_);
  if (events_.size() >= most_events_) {
    open_.erase(block);
    return;
  }
  auto found = open_.find(block);
  if (found == open_.end()) {
    found = open_.emplace(block, static_cast<scheduler::BlockId>(blocks_.size())).first;
    blocks_.push_back({block_bytes, true, false});
  }
  events_.push_back({Kind::kFree, found->second, now()});
  open_.erase(found);
}

std::size_t EventLog::add(Kind kind, std::int32_t id) {
  std::lock_guard lock(mutex_);
  if (kind != Kind::kBackwardNode)
    rests_since_.reset();  // gradients are added up after the last use
  events_.push_back({kind, id, now()});
  most_events_ = events_.size() + kMostAfter;
  return events_.size() - 1;
}

void EventLog::erase(std::size_t position) {
  std::lock_guard lock(mutex_);
  events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(position));
}

scheduler::BlockId EventLog::blockAt(const void* block, allocator::Bytes block_bytes) {
  std::lock_guard lock(mutex_);
  const auto found = open_.find(block);
  if (found != open_.end()) return found->second;
  const auto id = static_cast<scheduler::BlockId>(blocks_.size());
  blocks_.push_back({block_bytes, true, false});
  open_.emplace(block, id);
  return id;
}

void EventLog::rest() noexcept {
  std::lock_guard lock(mutex_);
  rests_since_ = std::chrono::steady_clock::now();
}

bool EventLog::restsSince(std::chrono::steady_clock::duration least) const noexcept {
  std::lock_guard lock(mutex_);
  if (!used_) return true;
  return rests_since_ && std::chrono::steady_clock::now() - *rests_since_ >= least;
}

std::vector<EventLog::LiveBlock> EventLog::liveBlocks() const {
  std::lock_guard lock(mutex_);
  std::vector<LiveBlock> made(blocks_.size(), {nullptr, scheduler::kNone, false});
  for (const auto& [address, id] : open_) made[static_cast<std::size_t>(id)].block = address;
  std::int32_t op = scheduler::kNone;
  bool since_backward = false;
  std::vector<LiveBlock> live;
  for (const auto& event : events_) {
    if (event.kind == Kind::kOpBegin) op = event.id;
    if (event.kind == Kind::kOpEnd) op = scheduler::kNone;
    if (event.kind == Kind::kBackwardNode) since_backward = true;
    if (event.kind != Kind::kAlloc) continue;
    const void* const block = made[static_cast<std::size_t>(event.id)].block;
    if (block != nullptr) live.push_back({block, op, since_backward});
  }
  return live;
}

void EventLog::moveInto(scheduler::Trace& trace) {
  std::lock_guard lock(mutex_);
  trace.base_bytes = base_bytes_;
  trace.duration_ns = now();
  trace.blocks = std::move(blocks_);
  trace.events = std::move(events_);
  open_.clear();  // their numbers mean nothing here any more
}

}  // namespace ebbtide::plugin
