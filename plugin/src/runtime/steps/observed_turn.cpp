#include "runtime/steps/observed_turn.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ebbtide::plugin {
namespace {

constexpr auto kRest = std::chrono::seconds(2);  // then a step's thread may be gone for good

}  // namespace

bool ObservedTurn::isFree(bool trains) {
  if (log_ == nullptr || !trains) return log_ == nullptr;
  if (yields_ || log_->isOver() || log_->restsSince(kRest)) return true;
  // A step that so many others overtook may keep its results for ever, or the last ones; that it
  // once ran backward says nothing of what it will do.
  const std::int64_t passes = log_->passes();
  const bool loses = log_->losesUses();
  if (passes == std::exchange(seen_passes_, passes) || loses) ++overtook_;
  if (loses && overtook_ >= most_passes_ / kSooner) return true;
  return std::max(passes, overtook_) >= most_passes_;
}

void ObservedTurn::take(std::shared_ptr<EventLog> log, bool trains) {
  log_ = std::move(log);
  yields_ = !trains;
  overtook_ = seen_passes_ = 0;
}

bool ObservedTurn::release(const std::shared_ptr<EventLog>& log) {
  if (log == nullptr) return false;
  if (log_ != log) {  // its turn was handed on, and it has ended after all
    if (log->ranBackward()) most_passes_ = std::min(2 * most_passes_, kMostPasses);
    return false;
  }
  log_ = nullptr;
  return true;
}

}  // namespace ebbtide::plugin
