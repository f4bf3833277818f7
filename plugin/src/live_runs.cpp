#include "live_runs.hpp"

#include <algorithm>

namespace ebbtide::plugin {

void LiveRuns::add(const std::shared_ptr<StepRun>& run) {
  std::lock_guard lock(mutex_);
  std::erase_if(runs_, [](const std::weak_ptr<StepRun>& known) { return known.expired(); });
  runs_.push_back(run);
}

allocator::Bytes LiveRuns::reclaim(allocator::Bytes need_bytes) noexcept try {
  std::vector<std::shared_ptr<StepRun>> runs;
  {
    std::lock_guard lock(mutex_);
    for (const auto& known : runs_) {
      if (auto run = known.lock()) runs.push_back(std::move(run));
    }
  }
  allocator::Bytes freed = 0;
  for (const auto& run : runs) {
    if (freed < need_bytes) freed += run->spill(need_bytes - freed);
  }
  return freed;
} catch (...) {
  return 0;
}

}  // namespace ebbtide::plugin
