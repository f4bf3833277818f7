#include "ebbtide/allocator/reclaiming_resource.hpp"

#include <algorithm>
#include <new>

namespace ebbtide::allocator {
namespace {

// Calls of the reclaimer for one allocation; other threads may take what the first ones freed.
constexpr int kMostReclaims = 8;
constexpr int kMostRounds = 64;  // those of other threads included

// Set while this thread runs a reclaimer, of whichever resource: nested reclaims could wait in a
// circle.
thread_local bool reclaiming_here = false;

thread_local int within_budget_scopes = 0;

}  // namespace

void ReclaimingResource::setReclaimer(Reclaimer* reclaimer) noexcept {
  std::unique_lock lock(mutex_);
  reclaimer_ = reclaimer;
  // The caller may destroy the old one next.
  while (reclaiming_ && !reclaiming_here) changed_.wait(lock);
}

void ReclaimingResource::limitOverrun(Bytes most_mapped_bytes) noexcept {
  const std::lock_guard lock(mutex_);
  overrun_limit_bytes_ = most_mapped_bytes;
}

Bytes ReclaimingResource::overrunLimitBytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return overrun_limit_bytes_;
}

void* ReclaimingResource::allocate(std::size_t bytes, Stream stream) noexcept {
  if (void* block = upstream_.allocate(bytes, stream)) return block;
  if (bytes == 0 || bytes > kMostRequestBytes) return nullptr;
  return reclaimAndRetry(bytes, stream);
}

void* ReclaimingResource::reclaimAndRetry(std::size_t bytes, Stream stream) noexcept {
  std::unique_lock lock(mutex_);
  const bool may_fit = overrun_limit_bytes_ > 0 || tracker_.couldFit(static_cast<Bytes>(bytes));
  if (!reclaiming_here && may_fit) {
    if (void* block = reclaimUntilItFits(lock, bytes, stream)) return block;
  }
  const Bytes limit = overrun_limit_bytes_;  // the reclaimer may have set another one
  lock.unlock();
  if (within_budget_scopes > 0) return nullptr;
  const Bytes mapped = tracker_.mappedBytes();
  if (limit != kUnlimited && static_cast<Bytes>(bytes) > limit - mapped) return nullptr;
  const BudgetTracker::OverrunScope overrun;
  return upstream_.allocate(bytes, stream);
}

void* ReclaimingResource::reclaimUntilItFits(std::unique_lock<std::mutex>& lock, std::size_t bytes,
                                             Stream stream) noexcept {
  bool progress = true;
  int attempt = 0;
  for (int round = 0; progress && attempt < kMostReclaims && round < kMostRounds; ++round) {
    // Another thread's reclaim may serve this one, too.
    while (reclaiming_) changed_.wait(lock);
    if (reclaimer_ == nullptr) break;
    lock.unlock();
    void* block = upstream_.allocate(bytes, stream);
    lock.lock();
    if (block != nullptr) return block;
    if (reclaiming_ || reclaimer_ == nullptr) continue;
    // What it frees may share its pages with live blocks. So each further call asks for twice as
    // much.
    progress = callReclaimer(
        lock, {std::min(needBytes(bytes), kUnlimited >> attempt) << attempt, stream, attempt});
    ++attempt;
    lock.unlock();
    block = upstream_.allocate(bytes, stream);
    lock.lock();
    if (block != nullptr) return block;
  }
  return nullptr;
}

Bytes ReclaimingResource::needBytes(std::size_t bytes) const noexcept {
  const auto wanted = static_cast<Bytes>(bytes);
  const Bytes room = tracker_.roomBytes();
  if (room == kUnlimited) return wanted;  // the system is short, by how much is unknown
  const Bytes need = wanted - room - pages_.cachedBytes();
  return need > 0 ? need : wanted;  // there is enough, in too small pieces
}

bool ReclaimingResource::callReclaimer(std::unique_lock<std::mutex>& lock,
                                       const ReclaimRequest& request) noexcept {
  Reclaimer* const callee = reclaimer_;
  const BudgetTracker::FreeWatch watch(tracker_);
  reclaims_.fetch_add(1, std::memory_order_relaxed);
  reclaiming_ = true;
  reclaiming_here = true;
  lock.unlock();
  callee->reclaim(request);  // what it says it freed is not believed
  lock.lock();
  reclaiming_here = false;
  reclaiming_ = false;
  changed_.notify_all();
  return watch.sawAny();
}

ReclaimingResource::WithinBudget::WithinBudget() noexcept {
  ++within_budget_scopes;
}
ReclaimingResource::WithinBudget::~WithinBudget() {
  --within_budget_scopes;
}

void ReclaimingResource::unlockAfterFork(bool in_child) noexcept {
  if (in_child) {
    // The child has this thread only; nobody waits.
    reclaiming_ = reclaiming_ && reclaiming_here;
    new (&changed_) std::condition_variable;
  }
  mutex_.unlock();
}

}  // namespace ebbtide::allocator
