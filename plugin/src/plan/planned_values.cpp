#include "plan/planned_values.hpp"

namespace ebbtide::plugin {

using scheduler::kNone;

void PlannedValues::follow(const Plan* plan) {
  plan_ = plan;
  alignment_.expect(plan != nullptr ? plan->values.producer.size() : 0);
}

bool PlannedValues::isNextOf(OpId planned_op) const {
  const ValueId next = alignment_.next();
  return next != kNone && plan_->values.producer[next] == planned_op;
}

bool PlannedValues::marked(ValueId value, const std::vector<bool> Plan::Values::*what) const {
  const ValueId number = planned(value);
  return number != kNone && (plan_->values.*what)[number];
}

std::int32_t PlannedValues::fetchesOf(ValueId value) const {
  const ValueId number = planned(value);
  return number == kNone ? 0 : plan_->values.fetches[number];
}

std::int32_t PlannedValues::lastReplayReading(ValueId value) const {
  const ValueId number = planned(value);
  return number == kNone ? kNone : plan_->values.last_replay_read[number];
}

}  // namespace ebbtide::plugin
