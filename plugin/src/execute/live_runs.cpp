#include "execute/live_runs.hpp"

#include <algorithm>

namespace ebbtide::plugin {

LiveRuns& liveRuns() {
  static auto* const runs = new LiveRuns();  // outlives static destruction: graphs may end late
  return *runs;
}

void LiveRuns::add(const std::shared_ptr<StepRun>& run) {
  std::lock_guard lock(mutex_);
  std::erase_if(runs_, [](const std::weak_ptr<StepRun>& known) { return known.expired(); });
  runs_.push_back(run);
}

c10::SmallVector<std::shared_ptr<StepRun>, 4> LiveRuns::alive() const {
  c10::SmallVector<std::shared_ptr<StepRun>, 4> runs;
  std::lock_guard lock(mutex_);
  for (const auto& known : runs_) {
    if (auto run = known.lock()) runs.push_back(std::move(run));
  }
  return runs;
}

void LiveRuns::noteWrite(const at::Tensor& tensor, const StepRun* recording) {
  for (const auto& run : alive()) {
    if (run.get() != recording) run->recorder().noteUnrecordedWrite(tensor);
  }
}

void LiveRuns::expectOtherData(const at::Tensor& tensor) {
  for (const auto& run : alive()) run->expectOtherData(tensor);
}

void LiveRuns::noteOtherData(const at::Tensor& tensor) {
  for (const auto& run : alive()) run->noteOtherData(tensor);
}

void LiveRuns::noteDetached(const at::Tensor& tensor) {
  for (const auto& run : alive()) run->noteDetached(tensor);
}

void LiveRuns::noteBackwardNode(const char* name) {
  for (const auto& run : alive()) {
    const bool done = run->hasUses() && run->liveUses() == 0;
    if (!run->phases().finished() && !done) run->backward().noteBackwardNode(name);
  }
}

bool LiveRuns::replaysToCome(const StepRun* recording) const noexcept {
  if (!StepRun::anyMayReplay()) return false;
  c10::SmallVector<std::shared_ptr<StepRun>, 4> looked_at;  // the last one ends after the lock
  std::lock_guard lock(mutex_);
  return std::any_of(runs_.begin(), runs_.end(), [&](const std::weak_ptr<StepRun>& known) {
    looked_at.push_back(known.lock());
    const StepRun* run = looked_at.back().get();
    return run != nullptr && run != recording && run->mayReplay();
  });
}

bool LiveRuns::others(const StepRun* run) const {
  const auto runs = alive();
  return std::any_of(runs.begin(), runs.end(),
                     [run](const auto& known) { return known.get() != run; });
}

StepRun::UnreadSpills LiveRuns::leftUnread(const StepRun& newest) const {
  StepRun::UnreadSpills sum;
  std::size_t steps = 0;
  for (const auto& one : alive()) {
    if (one.get() == &newest || !one->phases().finished() || one->liveUses() == 0) continue;
    const StepRun::UnreadSpills part = one->unreadSpills();
    if (part.bytes > 0) ++steps;
    sum.bytes += part.bytes;
    for (const auto& [op, bytes] : part.by_op) sum.by_op[op] += bytes;
  }
  return steps >= kUnreadSteps ? sum : StepRun::UnreadSpills();
}

void LiveRuns::lockForFork() {
  const auto runs = alive();
  mutex_.lock();
  locked_.assign(runs.begin(), runs.end());
  for (const auto& run : locked_) run->lockForFork();
}

void LiveRuns::unlockAfterFork() {
  const std::vector<std::shared_ptr<StepRun>> runs = std::move(locked_);  // perhaps the last ones
  locked_.clear();
  for (const auto& run : runs) run->unlockAfterFork();
  mutex_.unlock();
}

bool LiveRuns::nameBlocks(LiveShares& live, StepRun::Failing by) const {
  bool observed = false;
  for (const auto& run : alive()) observed = run->nameBlocks(live, by) || observed;
  return observed;
}

allocator::Bytes LiveRuns::reclaim(const allocator::ReclaimRequest& request) noexcept try {
  allocator::Bytes freed = 0;
  for (const auto& run : alive()) {
    if (freed < request.need_bytes) freed += run->evict(request.need_bytes - freed);
  }
  return freed;
} catch (...) {
  return 0;
}

}  // namespace ebbtide::plugin
