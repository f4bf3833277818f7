#include "plan/plan_cursor.hpp"

#include <utility>

namespace ebbtide::plugin {

using scheduler::kNone;

void PlanCursor::follow(const Plan* plan) {
  plan_ = plan;
  done_.assign(plan != nullptr ? plan->events.size() : 0, false);
  next_wait_ = 0;
  expects_receives_ = plan != nullptr && plan->receives;
}

std::int32_t PlanCursor::eventOf(UseId planned, std::uint32_t& visits) const {
  const std::vector<std::int32_t>& events = plan_->uses.events[planned];
  if (boundary_ == event_boundary_ && visits > 0 && events[visits - 1] == current_) return current_;
  return visits < events.size() ? events[visits++] : kNone;
}

void PlanCursor::begin(std::int32_t event) {
  current_ = event;
  next_ = event;
  event_boundary_ = boundary_;
  done_[event] = true;
}

std::int32_t PlanCursor::end() {
  return std::exchange(current_, kNone);
}

void PlanCursor::noteMessage(OpId ops) noexcept {
  Place place{.ops = ops, .event = next_};
  const bool same = place.ops == last_message_.ops && place.event == last_message_.event;
  if (same) place.before = last_message_.before + 1;
  last_message_ = place;
}

const Plan::Wait* PlanCursor::nextWait() const {
  return plan_ != nullptr && next_wait_ < plan_->waits.size() ? &plan_->waits[next_wait_] : nullptr;
}

const Plan::Wait* PlanCursor::reached() const {
  const Plan::Wait* const wait = nextWait();
  if (wait == nullptr || last_message_.event != wait->event) return nullptr;
  const Place& at = last_message_;
  const bool early = at.ops < wait->ops || (at.ops == wait->ops && at.before < wait->before);
  return early ? nullptr : wait;
}

const Plan::Wait* PlanCursor::due(std::int32_t event) const {
  const Plan::Wait* const wait = nextWait();
  return wait != nullptr && wait->event <= event ? wait : nullptr;
}

}  // namespace ebbtide::plugin
