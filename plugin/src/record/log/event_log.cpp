#include "record/log/event_log.hpp"

#include <algorithm>
#include <utility>

#include "base/spares.hpp"

namespace ebbtide::plugin {
namespace {

thread_local int ours_depth = 0;

// Of logs whose trace nobody took: a step fills as much as the one before it.
struct SpareLogs {
  static constexpr std::size_t kMostPlaces = std::size_t{1} << 18;

  Spares<std::vector<scheduler::TraceMapped>> mapped{kMostPlaces};
  Spares<AddressMap<scheduler::BlockId>> open{kMostPlaces};
  Spares<std::vector<scheduler::TraceBlock>> blocks{kMostPlaces};
  Spares<std::vector<scheduler::TraceEvent>> events{kMostPlaces};
};

SpareLogs& spareLogs() {
  static auto* const all = new SpareLogs();  // a log may end while the process exits
  return *all;
}

}  // namespace

using Kind = scheduler::TraceEvent::Kind;

EventLog::OursScope::OursScope() {
  ++ours_depth;
}
EventLog::OursScope::~OursScope() {
  --ours_depth;
}

EventLog::EventLog(std::int64_t base_bytes, const allocator::BudgetTracker* mapped_in)
    : base_bytes_(base_bytes),
      mapped_in_(mapped_in),
      mapped_(spareLogs().mapped.take()),
      open_(spareLogs().open.take()),
      blocks_(spareLogs().blocks.take()),
      events_(spareLogs().events.take()) {
  noteMapped(guard_.hold(), 0);
}

EventLog::~EventLog() {
  spareLogs().mapped.giveBack(std::move(mapped_));
  spareLogs().open.giveBack(std::move(open_));
  spareLogs().blocks.giveBack(std::move(blocks_));
  spareLogs().events.giveBack(std::move(events_));
}

ThreadMoment ThreadMoment::now() noexcept {
  return {RunClock::now(), RunClock::busyNanoseconds()};
}

scheduler::Nanoseconds EventLog::sinceStart(const Held&, RunClock::time_point at) const {
  return (at - start_).count();
}

void EventLog::onAllocate(const void* block, allocator::Bytes block_bytes) noexcept {
  const Held held = guard_.hold();
  if (events_.size() >= most_events_) {
    open_.erase(block);
    return;
  }
  const auto id = static_cast<scheduler::BlockId>(blocks_.size());
  blocks_.push_back({block_bytes, false, ours_depth > 0});
  open_.put(block, scheduler::BlockId(id));
  events_.push_back({Kind::kAlloc, id, now(held)});
  noteMapped(held, events_.back().at_ns);
}

void EventLog::onFree(const void* block, allocator::Bytes block_bytes) noexcept {
  const Held held = guard_.hold();
  if (events_.size() >= most_events_) {
    open_.erase(block);
    return;
  }
  const auto known = open_.take(block);
  const auto id = known.value_or(static_cast<scheduler::BlockId>(blocks_.size()));
  if (!known) blocks_.push_back({block_bytes, true, false});
  events_.push_back({Kind::kFree, id, now(held)});
  noteMapped(held, events_.back().at_ns);
}

// Pages come and go with blocks: an allocation has its pages when it is told, a free those that it
// may give back later.
void EventLog::noteMapped(const Held&, scheduler::Nanoseconds at_ns) {
  if (mapped_in_ == nullptr) return;
  const allocator::Bytes bytes = mapped_in_->mappedBytes();
  if (mapped_.empty() || mapped_.back().bytes != bytes) mapped_.push_back({at_ns, bytes});
}

std::size_t EventLog::add(Kind kind, std::int32_t id) {
  const Held held = guard_.hold();
  if (kind != Kind::kBackwardPass)
    rests_since_.reset();  // gradients are added up after the last use
  if (kind == Kind::kBackwardPass) backward_passes_.fetch_add(1, std::memory_order_relaxed);
  if (kind == Kind::kBackwardPass || kind == Kind::kUnpack) ran_backward_ = true;
  if (kind == Kind::kRelease) ++unread_;
  if (kind == Kind::kUnpack) --unread_;  // its release comes later
  events_.push_back({kind, id, now(held)});
  most_events_ = events_.size() + kMostAfter;
  return events_.size() - 1;
}

void EventLog::addNode(const char* name) {
  const Held held = guard_.hold();
  const auto [known, is_new] =
      number_of_node_.try_emplace(name, static_cast<std::int32_t>(nodes_.size()));
  if (is_new) nodes_.emplace_back(name);
  events_.push_back({Kind::kBackwardNode, known->second, now(held)});
  most_events_ = events_.size() + kMostAfter;
}

void EventLog::erase(std::size_t position) {
  const Held held = guard_.hold();
  events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(position));
  if (position < updated_at_ && updated_at_ != SIZE_MAX) --updated_at_;
}

scheduler::BlockId EventLog::blockAt(const void* block, allocator::Bytes block_bytes) {
  const Held held = guard_.hold();
  if (const scheduler::BlockId* const known = open_.find(block)) return *known;
  const auto id = static_cast<scheduler::BlockId>(blocks_.size());
  blocks_.push_back({block_bytes, true, false});
  return open_.add(block, scheduler::BlockId(id));
}

// The memory's locks are asked for without ours: who waits for ours spins.
scheduler::BlockId EventLog::blockAt(const void* block, const allocator::MemoryResource& memory) {
  {
    const Held held = guard_.hold();
    if (const scheduler::BlockId* const known = open_.find(block)) return *known;
  }
  return blockAt(block, memory.blockBytes(block));
}

// -------------------------------------------------------------------------------------------------
// marks

scheduler::Nanoseconds EventLog::busySinceStart(const Held&, const ThreadMoment& moment) const {
  return std::max<scheduler::Nanoseconds>(0, moment.busy_ns - busy_start_ns_);
}

void EventLog::insert(const Held&, scheduler::TraceEvent event) {
  const auto later = std::find_if(events_.rbegin(), events_.rend(), [&event](const auto& before) {
    return before.at_ns <= event.at_ns;
  });
  const auto place = static_cast<std::size_t>(later.base() - events_.begin());
  if (place < updated_at_ && updated_at_ != SIZE_MAX) ++updated_at_;
  events_.insert(later.base(), event);
  most_events_ = events_.size() + kMostAfter;
}

void EventLog::startAt(const ThreadMoment& moment) {
  const Held held = guard_.hold();
  if (moment.at >= start_) return;
  const scheduler::Nanoseconds earlier = -sinceStart(held, moment.at);
  for (scheduler::TraceEvent& event : events_) event.at_ns += earlier;
  for (std::size_t i = 1; i < mapped_.size(); ++i) mapped_[i].at_ns += earlier;
  start_ = moment.at;
  busy_start_ns_ = std::min(busy_start_ns_, moment.busy_ns);
}

void EventLog::addMessage(const GroupMessage& message, const ThreadMoment& moment) {
  const Held held = guard_.hold();
  if (marks_.messages.size() >= kMostMarks) return;
  const std::int32_t peer = message.message.peer;
  const bool any = peer == scheduler::kNone && message.message.receive;
  if (message.rank < 0 || message.rank >= message.size || message.message.bytes < 0) return;
  if (!any && (peer < 0 || peer >= message.size)) return;
  if (marks_.messages.empty()) marks_.group = message;
  if (message.group != marks_.group.group || message.size != marks_.group.size) return;
  const auto id = static_cast<std::int32_t>(marks_.messages.size());
  marks_.messages.push_back(message.message);
  marks_.messages.back().busy_ns = busySinceStart(held, moment);
  insert(held,
         {Kind::kMessage, id, std::max<scheduler::Nanoseconds>(0, sinceStart(held, moment.at))});
}

std::int32_t EventLog::beginScope(std::string name, const ThreadMoment& moment) {
  const Held held = guard_.hold();
  if (marks_.scopes.size() >= kMostMarks) return scheduler::kNone;
  const auto id = static_cast<std::int32_t>(marks_.scopes.size());
  const scheduler::Nanoseconds busy_ns = busySinceStart(held, moment);
  marks_.scopes.push_back({std::move(name), busy_ns, busy_ns});
  marks_.ended.push_back(false);
  insert(held,
         {Kind::kScopeBegin, id, std::max<scheduler::Nanoseconds>(0, sinceStart(held, moment.at))});
  return id;
}

void EventLog::endScope(std::int32_t scope, const ThreadMoment& moment) {
  const Held held = guard_.hold();
  const auto place = static_cast<std::size_t>(scope);
  if (scope >= 0 && place < marks_.ended.size() && !marks_.ended[place]) end(held, place, moment);
}

void EventLog::end(const Held& held, std::size_t scope, const ThreadMoment& moment) {
  marks_.scopes[scope].end_busy_ns =
      std::max(marks_.scopes[scope].begin_busy_ns, busySinceStart(held, moment));
  marks_.ended[scope] = true;
  insert(held, {Kind::kScopeEnd, static_cast<std::int32_t>(scope),
                std::max<scheduler::Nanoseconds>(0, sinceStart(held, moment.at))});
}

void EventLog::rest() noexcept {
  const Held held = guard_.hold();
  rests_since_ = std::chrono::steady_clock::now();
}

bool EventLog::restsSince(std::chrono::steady_clock::duration least) const noexcept {
  const Held held = guard_.hold();
  if (uses_ == 0) return true;
  return rests_since_ && std::chrono::steady_clock::now() - *rests_since_ >= least;
}

bool EventLog::isOver() const noexcept {
  const Held held = guard_.hold();
  return uses_ > 0 && rests_since_ && !ran_backward_;
}

bool EventLog::ranBackward() const noexcept {
  const Held held = guard_.hold();
  return ran_backward_;
}

bool EventLog::losesUses() const noexcept {
  const Held held = guard_.hold();
  return uses_ >= kFewUses && 2 * unread_ >= uses_;
}

std::vector<EventLog::LiveBlock> EventLog::liveBlocks() const {
  const Held held = guard_.hold();
  std::vector<LiveBlock> made(blocks_.size(), {nullptr, scheduler::kNone, false, false, false});
  open_.forEach([&made](const void* address, scheduler::BlockId id) {
    made[static_cast<std::size_t>(id)].block = address;
  });
  std::int32_t op = scheduler::kNone;
  bool since_backward = false, before_ops = true;
  std::vector<LiveBlock> live;
  for (std::size_t i = 0; i < events_.size(); ++i) {
    const scheduler::TraceEvent& event = events_[i];
    if (event.kind == Kind::kOpBegin) op = event.id, before_ops = false;
    if (event.kind == Kind::kOpEnd) op = scheduler::kNone;
    if (event.kind == Kind::kBackwardNode) since_backward = true;
    if (event.kind != Kind::kAlloc) continue;
    const void* const block = made[static_cast<std::size_t>(event.id)].block;
    if (block != nullptr) live.push_back({block, op, since_backward, before_ops, i >= updated_at_});
  }
  return live;
}

void EventLog::moveInto(scheduler::Trace& trace) {
  const Held held = guard_.hold();
  const ThreadMoment last = ThreadMoment::now();
  for (std::size_t scope = 0; scope < marks_.ended.size(); ++scope) {
    if (!marks_.ended[scope]) end(held, scope, last);
  }
  marks_.ended.clear();
  if (!marks_.messages.empty()) {
    trace.group = marks_.group.group;
    trace.group_rank = marks_.group.rank;
    trace.group_size = marks_.group.size;
  }
  trace.messages = std::exchange(marks_.messages, {});
  trace.scopes = std::exchange(marks_.scopes, {});
  trace.base_bytes = base_bytes_;
  trace.duration_ns = now(held);
  trace.blocks = std::move(blocks_);
  trace.events = std::move(events_);
  trace.mapped = std::move(mapped_);
  trace.nodes = std::exchange(nodes_, {});
  if (updated_at_ != SIZE_MAX) trace.updated_at = static_cast<std::int64_t>(updated_at_);
  number_of_node_.clear();
  open_.clear();  // their numbers mean nothing here any more
}

}  // namespace ebbtide::plugin
